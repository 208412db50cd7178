"""Rewards from a running `tracemill serve reward`.

`TRACEMILL_REWARD_URL` says where it listens (default http://127.0.0.1:8765). An output without a reward is never a 0:

- verl: `compute_score` (one row) and `compute_score_batch` (a batch) raise RuntimeError;
- TRL: `tracemill_reward` returns None for the row, which then has no part in its group's advantages;
- ms-swift: plugin.py raises, for ms-swift would count None as 0.

Needs the standard library only.
"""

import http.client
import json
import os
import time
import urllib.error
import urllib.request

DEFAULT_URL = "http://127.0.0.1:8765"
ATTEMPTS = 6
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
TIMEOUT_S = 600.0
# The service takes 64 MiB a request.
MOST_ROWS = 256
MOST_BYTES = 16 << 20


class _Unreachable(Exception):
    """The service could not be asked; it may be later."""


def rewards(ground_truths, outputs):
    """The service's result for each output, in order; `result["outcome"]` is `score`, `abstain` or `error`.

    Rows that failed, and calls that did, are tried again, with growing waits.
    """
    bodies = [_body(truth, output) for truth, output in zip(ground_truths, outputs, strict=True)]
    results = [None] * len(bodies)
    waiting = list(range(len(bodies)))
    failure = None
    for attempt in range(ATTEMPTS):
        if attempt > 0:
            time.sleep(min(FIRST_WAIT_S * 2 ** (attempt - 1), LONGEST_WAIT_S))
        try:
            for batch in _batches(waiting, bodies):
                for i, result in zip(batch, _post([bodies[i] for i in batch]), strict=True):
                    results[i] = result
            failure = None
        except _Unreachable as error:
            failure = error
        waiting = [i for i in waiting if results[i] is None or results[i]["outcome"] == "error"]
        if not waiting:
            break
    if any(result is None for result in results):
        raise RuntimeError(f"no rewards from {_url()} after {ATTEMPTS} attempts: {failure}")
    return results


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """verl, one row: `reward.custom_reward_function.name: compute_score`."""
    return _scored(rewards([ground_truth], [solution_str])[0])


def compute_score_batch(data_sources, solution_strs, ground_truths, extra_infos=None, **kwargs):
    """verl, a batch: `reward.custom_reward_function.name: compute_score_batch`, with a manager that gives batches."""
    return [_scored(result) for result in rewards(ground_truths, solution_strs)]


def tracemill_reward(completions, ground_truth, **kwargs):
    """TRL: `GRPOTrainer(reward_funcs=tracemill_reward, ...)`."""
    results = rewards(ground_truth, [_text(completion) for completion in completions])
    return [result["total"] if result["outcome"] == "score" else None for result in results]


def require_total(result):
    """A result's reward.

    Raises RuntimeError, with the reason, where there is none.
    """
    if result["outcome"] != "score":
        reason = (result.get("executed") or {}).get("reason")
        raise RuntimeError(f"row {result.get('id')} has no reward ({result['outcome']}): {reason}")
    return result["total"]


def _scored(result):
    return {"score": require_total(result), "format": result["format"], "executor": result["executor"]}


def _text(completion):
    """A completion's text: it is a string, or messages whose last one is the answer."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def _body(ground_truth, output):
    """The row of one output, as bytes."""
    return json.dumps({**json.loads(ground_truth), "output": output}).encode()


def _batches(indices, bodies):
    """Splits rows so that no request grows too long."""
    batch, size = [], 0
    for i in indices:
        if batch and (len(batch) == MOST_ROWS or size + len(bodies[i]) > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(i)
        size += len(bodies[i])
    if batch:
        yield batch


def _url():
    return os.environ.get("TRACEMILL_REWARD_URL", DEFAULT_URL).rstrip("/") + "/reward"


def _post(bodies):
    """The results for rows."""
    data = b'{"rows": [' + b", ".join(bodies) + b"]}"
    request = urllib.request.Request(_url(), data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
            results = json.load(reply)["results"]
    except urllib.error.HTTPError as error:
        reason = f"HTTP {error.code}: {error.read(2000).decode(errors='replace')}"
        if error.code < 500 and error.code not in (408, 429):
            raise RuntimeError(f"{_url()} refused the rows: {reason}") from error
        raise _Unreachable(reason) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _Unreachable(error) from error
    if len(results) != len(bodies):
        raise RuntimeError(f"{_url()} gave {len(results)} results for {len(bodies)} rows")
    return results
