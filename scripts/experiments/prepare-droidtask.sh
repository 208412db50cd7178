#!/usr/bin/env bash
# Rows for training the high-level agents on DroidTask, with three whole applications held out:
# prepare-droidtask.sh DATA OUT, where DATA holds droidtask/ and gui-odyssey-ces/.
#
# OUT/{train,held}-{sft,rl}-{coordinator,state-tracker} and OUT/ces-sft-state-tracker are folders for `tracemill train`.
set -euo pipefail
data="$1" out="$2"
mkdir -p "$out/source/train" "$out/source/held"
python3 - "$data/droidtask/profile.json" "$out/source" <<'PY'
import json, pathlib, sys
profile, out = json.load(open(sys.argv[1])), pathlib.Path(sys.argv[2])
held = {"camera", "dialer", "gallery"}
assert held <= profile.keys()
for name, keep in (("train", profile.keys() - held), ("held", held)):
    part = {app: tasks for app, tasks in profile.items() if app in keep}
    (out / name / "profile.json").write_text(json.dumps(part))
    print(name, {app: len(tasks) for app, tasks in part.items()}, file=sys.stderr)
PY
for part in train held; do
  tracemill ingest --run "$out/$part" --format droidtask --input "$out/source/$part"
  for role in coordinator state-tracker; do
    for kind in sft rl; do
      tracemill export "$kind" --run "$out/$part" --role "$role" --target tracemill --worded --test-share 0 \
        --out "$out/$part-$kind-$role"
    done
  done
done
tracemill ingest --run "$out/ces" --format ces-sft --input "$data/gui-odyssey-ces"
tracemill export sft --run "$out/ces" --role state-tracker --target tracemill --out "$out/ces-sft-state-tracker"
