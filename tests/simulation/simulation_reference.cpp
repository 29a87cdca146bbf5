#include "tests/simulation/simulation_reference.hpp"

#include "simulation/experiment.hpp"

namespace gleaner {

std::string simulation_reference() {
  return std::string(R"(# An experiment's file

`gleaner simulate FILE`

One TOML file describes an experiment. It has the sections of a run's file, `[run]` to `[evaluation]`, which
`docs/configuration.md` lists, and the simulator's own, which are below; `simulation/experiments/` has some to begin
with. All mistakes in it are reported at once, each with its line, what was expected and the nearest known key. Relative
paths are relative to the folder of the file.

Two things differ from a run that is started on a coordinator. The samples and the test set come from `[population]`, so
that `data.evaluation` is needed only for a test set from elsewhere. And time is virtual: deadlines, latencies and
availability are counted on the simulator's clock.

This page is printed by the program `simulation_reference` from the tables that the file is read with.

)") + simulation::experiment_reference() +
         R"(## Files that it names

A table of devices (profile `csv`) has the names of its columns in the first line, in any order, and a line for each
device; lines that begin with `#` are skipped. Columns that it lacks are taken from `[network]`.

    samples_per_s,uplink_kbit_per_s,downlink_kbit_per_s,latency_ms
    850,12000,60000,35
    40,500,2000,180

FedScale's traces are pickles of dictionaries, read without running anything in them: dictionaries, lists, numbers and
strings are taken, and whatever would make an object is refused. Of a capacity, `"computation"` is the milliseconds of
inference a sample, of which training takes three times as much, and `"communication"` the kbit/s (of 1024 bits) in
either direction. Of a behaviour, a device can be reached from each time in `"active"` to the one in `"inactive"`, in
seconds, again and again after `"finish_time"`.

## What it leaves behind

`rounds.jsonl` and `rounds.csv` in the output directory have a line for each round, with the same columns:

| column | meaning |
|---|---|
| `experiment`, `data` | `run.name` and `data.name`, with `synthetic-` before it where the samples are made up |
| `round`, `version` | the round, and the version of the model after it |
| `virtual_s`, `real_s` | seconds of virtual time when the round closed, and of work on the experiment until then |
| `accuracy`, `loss` | on the test set, where the version was evaluated; else null, or empty in the table |
| `payload_bytes_up`, `payload_bytes_down` | of the round: updates, and changes of the model |
| `frame_bytes_up`, `frame_bytes_down` | of the round: whole messages as both ends encode them, heartbeats apart |
| `socket_bytes_up`, `socket_bytes_down` | of the round: an estimate of what TLS makes of them, heartbeats too |
| `uploads`, `skips`, `late`, `lapsed` | of the round: updates, silent devices, late ones, plans without an answer |
| `reachable` | devices that could be reached when the round closed |

An experiment that goes on after a kill cuts off what is beyond the round that its state is at, so that the files are
those of one that ran through, `real_s` apart.
)";
}

}  // namespace gleaner
