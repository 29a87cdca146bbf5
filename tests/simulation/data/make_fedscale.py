#!/usr/bin/env python3
"""Makes fedscale_capacity.pickle and fedscale_behaviour.pickle beside it: made-up devices in the format of FedScale's
traces, each file in the protocol that Python wrote by default when such traces were made. Same bytes every time.
"""

import pickle
import random
from pathlib import Path

DAY = 86_400
DEVICES = 60
PROTOCOL = 3


def capacity(rng):
    # Phones: a few ms to some 100 ms of inference a sample, hundreds of kbit/s to tens of Mbit/s.
    return {"computation": round(rng.lognormvariate(3.5, 0.8), 3),
            "communication": round(rng.lognormvariate(8.5, 1.0), 3)}


def behaviour(rng):
    days = 3
    active, inactive = [], []
    for day in range(days):
        start = day * DAY + rng.randrange(0, DAY // 2)
        active.append(start)
        inactive.append(start + rng.randrange(600, DAY // 3))
    return {"duration": sum(inactive) - sum(active), "inactive": inactive, "finish_time": days * DAY,
            "active": active, "model": rng.choice(["A1", "B2", "C3"])}


def main():
    folder = Path(__file__).resolve().parent
    rng = random.Random(20231)
    capacities = {device: capacity(rng) for device in range(1, DEVICES + 1)}
    behaviours = {device: behaviour(rng) for device in range(DEVICES)}
    (folder / "fedscale_capacity.pickle").write_bytes(pickle.dumps(capacities, protocol=PROTOCOL))
    (folder / "fedscale_behaviour.pickle").write_bytes(pickle.dumps(behaviours, protocol=PROTOCOL))


if __name__ == "__main__":
    main()
