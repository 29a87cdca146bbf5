#!/usr/bin/env python3
"""The same experiment with 1, 2 and 3 processes under mpirun, and without: the same model, round for round."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

EXPERIMENT = """
[run]
name = "ranks"
rounds = 6
seed = 4
recipe = "gsasg"
[model]
name = "softmax"
[data]
name = "fashion-mnist"
[training]
batch_size = 16
[cohort]
size = 6
min_devices = 4
over_selection = 1.3
quorum = 0.7
deadline = "30s"
[population]
devices = 12
synthetic_samples = 600
partition = "dirichlet"
min_samples = 10
"""


def main():
    gleaner, mpirun = sys.argv[1:3]
    folder = tempfile.mkdtemp(prefix="gleaner-ranks-")
    try:
        with open(folder + "/ranks.toml", "w") as file:
            file.write(EXPERIMENT)
        endings = {}
        for ranks in (0, 1, 2, 3):
            out = f"{folder}/{ranks}"
            command = [gleaner, "simulate", folder + "/ranks.toml", "--output", out, "--quiet"]
            if ranks:
                root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
                command = [mpirun, *root, "--oversubscribe", "-n", str(ranks), *command]
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
            if done.returncode != 0:
                sys.exit(f"{ranks} ranks: exit status {done.returncode}\n{done.stdout}{done.stderr}")
            lines = [line for line in done.stdout.splitlines() if "hash:" in line]
            with open(out + "/rounds.jsonl") as file:
                rounds = [json.loads(line) for line in file]
            for record in rounds:
                del record["real_s"]
            endings[ranks] = (lines[0].split("hash:")[1].strip(), rounds)
        for ranks, ending in endings.items():
            if ending != endings[0]:
                sys.exit(f"{ranks} ranks end with {ending[0]}, one process with {endings[0][0]}")
        print("1, 2 and 3 ranks end like one process:", endings[0][0])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
