#!/usr/bin/env bash
# A CUDA 13 toolkit for building `--features cuda` on a machine without one, from the Python package index, into
# the user's cache folder (1.2 GB). Prints the environment to build with: eval "$(scripts/cuda-toolkit.sh)"
#
# Idempotent. CUDA_COMPUTE_CAP, if not set, is 90 (H100, H200). A machine that runs the binary needs the driver, and
# libcublas.so.13, libcudart.so.13 and libcurand.so.10 in LD_LIBRARY_PATH.
set -euo pipefail

cache="${TRACEMILL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tracemill}"
venv="$cache/cuda-13"
if [ ! -f "$venv/.ready" ]; then
  python3 -m venv --clear "$venv" >&2
  "$venv/bin/pip" install --quiet --disable-pip-version-check \
    nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 \
    nvidia-curand==10.4.0.35 "nvidia-cublas==13.1.*" nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-cccl==13.0.85 >&2
  root=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)
  # The wheels carry only versioned libraries, and none of the driver's.
  for name in cublas cublasLt cudart curand nvrtc; do
    ln -sf "$(basename "$(ls "$root/lib/lib$name.so".* | head -n 1)")" "$root/lib/lib$name.so"
  done
  ln -sfn lib "$root/lib64"
  mkdir -p "$root/lib/stubs"
  cc -shared -Wl,-soname,libcuda.so.1 -o "$root/lib/stubs/libcuda.so" -x c /dev/null
  touch "$venv/.ready"
fi
root=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)
cat <<ENVIRONMENT
export CUDA_HOME='$root' CUDA_PATH='$root' CUDA_ROOT='$root' PATH='$root/bin':"\$PATH"
export CUDA_COMPUTE_CAP="\${CUDA_COMPUTE_CAP:-90}"
export LIBRARY_PATH='$root/lib:$root/lib/stubs' LD_LIBRARY_PATH='$root/lib'
export RUSTFLAGS='-L $root/lib -L $root/lib/stubs -C link-arg=-Wl,--allow-shlib-undefined -C link-arg=-Wl,--unresolved-symbols=ignore-all'
ENVIRONMENT
