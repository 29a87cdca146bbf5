#!/usr/bin/env python3
"""Compiles the CUDA kernels with nvcc: no warning of any stage, and no register that spills.

compile_test.py NVCC HOST_COMPILER SOURCE_ROOT ARCHITECTURE SOURCE...
"""

import os
import re
import subprocess
import sys
import tempfile


def compile_kernels(nvcc, host_compiler, root, architecture, source, folder):
    command = [nvcc, "-std=c++20", "-ccbin", host_compiler, "-I", root, "-O3", f"-arch=sm_{architecture}",
               "--fmad=false", "--expt-relaxed-constexpr", "-Werror", "all-warnings",
               "-Xptxas", "-v,-warn-spills,-Werror",
               "-Xcompiler", "-Wall,-Wextra,-Werror,-ffp-contract=off", "-c", os.path.join(root, source),
               "-o", os.path.join(folder, "kernels.o")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def findings(output):
    """(kernel, what) of every kernel that spills or needs a stack, and the number of kernels."""
    kernel, kernels, wrong = "", 0, []
    for line in output.splitlines():
        entry = re.search(r"Compiling entry function '(\w+)'", line)
        if entry:
            kernel = entry.group(1)
            kernels += 1
        memory = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if memory and any(int(n) > 0 for n in memory.groups()):
            wrong.append((kernel, memory.group(0)))
    return kernels, wrong


def main():
    nvcc, host_compiler, root, architecture, *sources = sys.argv[1:]
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            status, output = compile_kernels(nvcc, host_compiler, root, architecture, source, folder)
            kernels, wrong = findings(output)
            if status != 0 or "warning" in output or kernels == 0:
                print(output)
                failed.append(f"{source}: exit status {status}, {kernels} kernels")
            failed += [f"{source}: {kernel}: {what}" for kernel, what in wrong]
            print(f"{source}: {kernels} kernels for sm_{architecture}")
    for failure in failed:
        print(f"compile_test: sm_{architecture}: {failure}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
