#!/usr/bin/env python3
"""The endpoints that `lessons` uses of Qdrant's REST API, answered by qdrant-client's own local mode.

Bodies are read with the client's generated models of Qdrant's OpenAPI description, so that a field that the server
does not know, or of another type, is refused. No server binary is needed:

    pip install qdrant-client==1.15.1
    python scripts/reference/qdrant_local.py 6399 &
    QDRANT_URL=http://127.0.0.1:6399 cargo nextest run --workspace -E 'test(a_real_server)'
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlparse

from qdrant_client import QdrantClient
from qdrant_client.http import models

CLIENT = QdrantClient(":memory:")


def strict(model, body):
    unknown = set(body) - set(model.model_fields)
    if unknown:
        raise ValueError(f"{model.__name__} does not know {sorted(unknown)}")
    return model.model_validate(body)


def answer(method, name, path, body):
    if method == "GET" and path == "":
        if not CLIENT.collection_exists(name):
            return None
        return json.loads(CLIENT.get_collection(name).model_dump_json())
    if method == "PUT" and path == "":
        request = strict(models.CreateCollection, body)
        return CLIENT.create_collection(name, vectors_config=request.vectors)
    if method == "PUT" and path == "/points":
        CLIENT.upsert(name, strict(models.PointsList, body).points)
        return {"status": "completed"}
    if method == "POST" and path == "/points/delete":
        model = models.FilterSelector if "filter" in body else models.PointIdsList
        CLIENT.delete(name, strict(model, body))
        return {"status": "completed"}
    if method == "POST" and path == "/points/query":
        q = strict(models.QueryRequest, body)
        found = CLIENT.query_points(
            name, query=q.query, query_filter=q.filter, limit=q.limit, score_threshold=q.score_threshold,
            with_payload=q.with_payload,
        )
        return json.loads(found.model_dump_json())
    if method == "POST" and path == "/points/scroll":
        q = strict(models.ScrollRequest, body)
        points, offset = CLIENT.scroll(
            name, scroll_filter=q.filter, limit=q.limit, offset=q.offset, with_payload=q.with_payload
        )
        return {"points": [json.loads(p.model_dump_json()) for p in points], "next_page_offset": offset}
    raise ValueError(f"{method} {path} is not used")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def serve(self):
        _, _, name, *rest = urlparse(self.path).path.split("/")
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        try:
            result = answer(self.command, name, "".join(f"/{part}" for part in rest), body)
            status, reply = (200, {"result": result, "status": "ok"}) if result is not None else (404, {})
        except Exception as error:  # what the server would refuse, it answers with
            status, reply = 400, {"status": {"error": str(error)}}
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = serve

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
