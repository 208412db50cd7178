#!/usr/bin/env bash
# Builds `tracemill` for NVIDIA GPUs, on a machine with or without one: build-cuda.sh [CARGO ARGUMENTS]
#
# The compiler comes from scripts/cuda-toolkit.sh. The build has a target folder of its own, so that the CPU build
# stays warm. Prints the path of the binary. CUDA_COMPUTE_CAP, if not set, is 90 (H100, H200).
#
# The machine that runs it needs NVIDIA's driver, and libcublas.so.13, libcudart.so.13 and libcurand.so.10 in
# LD_LIBRARY_PATH: PyTorch's wheels for CUDA 13 carry them in site-packages/nvidia/cu13/lib.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

environment="$(scripts/cuda-toolkit.sh)"
eval "$environment"
export CARGO_TARGET_DIR="${TRACEMILL_CUDA_TARGET:-${TRACEMILL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tracemill}/cuda-target}"
cargo build --release --locked -p tracemill --features cuda --bin tracemill "$@" >&2
printf '%s\n' "$CARGO_TARGET_DIR/release/tracemill"
