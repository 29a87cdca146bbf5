#include "simulation/experiment_keys.hpp"

#include <algorithm>

#include "common/text.hpp"
#include "config/paths.hpp"
#include "training/partition.hpp"

namespace gleaner::simulation {
namespace {

using config::Excluded;
using config::Fault;
using config::Key;
using config::Kind;
using config::Need;
using config::Section;

constexpr std::uint32_t kDevicesMax = 1'000'000;
constexpr std::uint32_t kSamplesMax = 100'000'000;
constexpr config::NumberRange kRate = {.least = 0, .most = 1e12, .excluded = Excluded::least};
constexpr config::NumberRange kShare = {.least = 0, .most = 1, .excluded = Excluded::most};
constexpr config::NumberRange kSigma = {.least = 0, .most = 5};
constexpr config::Range<Duration> kTurn = {std::chrono::seconds(1), std::chrono::hours(24 * 365)};

// One of the two words, or a directory.
Kind data_kind(std::string& into) {
  Kind kind = config::text(into);
  kind.expected = R"("synthetic", "installed" or the path of a readable directory)";
  kind.settle = [&into](const std::filesystem::path& folder) -> std::optional<Fault> {
    if (into == kSyntheticData || into == kInstalledData) return std::nullopt;
    if (into.empty()) return Fault{.what = "is empty", .meant = {}};
    const std::vector<std::string> words{std::string(kSyntheticData), std::string(kInstalledData)};
    const std::string near = nearest(into, words);
    auto fault = config::readable_directory(into).settle(folder);
    if (fault && !near.empty()) fault->meant = '"' + near + '"';
    return fault;
  };
  return kind;
}

Section population_section(Population& p) {
  std::vector<std::string> partitions;
  for (const PartitionSummary& row : known_partitions()) partitions.emplace_back(row.name);
  return {"population",
          "The devices that are enrolled, and what data each of them has.",
          {{.name = "devices",
            .kind = config::integer(p.devices, {1, kDevicesMax}),
            .description = "Enrolled devices; one that never takes part costs next to nothing."},
           {.name = "data",
            .kind = data_kind(p.data),
            .description = "Where the data set `data.name` lies: a directory, `installed` for the place where it "
                           "usually is, or `synthetic` for a made-up set of its shape, which every output says."},
           {.name = "synthetic_samples",
            .kind = config::integer(p.synthetic_samples, {0, kSamplesMax}),
            .description = "Samples of the made-up training set; 0 is as many as the real one has."},
           {.name = "partition",
            .kind = config::one_of(p.partition, partitions),
            .description = "How the samples are shared out: evenly (`iid`), with a mix of labels of each device's own "
                           "(`dirichlet`), by few labels a device (`shards`), by size (`quantity`), or as the data "
                           "set's own users have them (`natural`)."},
           {.name = "alpha",
            .kind = config::number(p.alpha, {.least = 1e-4, .most = 1e6}),
            .description = "Partition dirichlet: small is skewed, large is even."},
           {.name = "shards_per_device",
            .kind = config::integer(p.shards_per_device, {1, 1000}),
            .description = "Partition shards: about so many labels on a device."},
           {.name = "size_sigma",
            .kind = config::number(p.size_sigma, {.least = 0, .most = 4}),
            .description = "Partition quantity: deviation of the logarithm of the sizes."},
           {.name = "min_samples",
            .kind = config::integer(p.min_samples, {1, kSamplesMax}),
            .description = "Of every device."},
           {.name = "split_seed",
            .kind = config::integer(p.split_seed),
            .description = "Of the partition, as in a device's file; 0 is the run's seed."},
           {.name = "samples_per_device",
            .kind = config::integer(p.samples_per_device, {0, kSamplesMax}),
            .description = "0 shares all samples out, each to one device; else every device draws so many by the "
                           "partition's rule, so that there may be more devices than samples."}}};
}

Section devices_section(DeviceSettings& d) {
  return {
      "devices",
      "How fast the devices are, and when they can be reached.",
      {{.name = "profile",
        .kind = config::one_of(d.profile, {"constant", "lognormal", "csv", "fedscale"}),
        .description = "All alike; drawn from the sections `[classes.NAME]`; from a table; or from FedScale's trace "
                       "of device capacities."},
       {.name = "samples_per_s",
        .kind = config::number(d.samples_per_s, kRate),
        .description = "Profile constant: samples trained in a second."},
       {.name = "uplink_kbit_per_s",
        .kind = config::number(d.uplink_kbit_per_s, kRate),
        .description = "Profile constant: from the device, in 1000 bits a second."},
       {.name = "downlink_kbit_per_s",
        .kind = config::number(d.downlink_kbit_per_s, kRate),
        .description = "Profile constant: to the device."},
       {.name = "file",
        .kind = config::readable_file(d.capacity_file),
        .description = "Profile csv: a table with the columns `samples_per_s`, `uplink_kbit_per_s` and "
                       "`downlink_kbit_per_s`, and if wanted `latency_ms`, `jitter`, `loss` and `failure_rate`. "
                       "Profile fedscale: a pickle of {id: {\"computation\", \"communication\"}}. Device i takes "
                       "row i modulo their number."},
       {.name = "availability",
        .kind = config::one_of(d.availability, {"always", "periodic", "exponential", "fedscale"}),
        .description = "Reachable always; for a share of every period; on and off for exponential times; or by "
                       "FedScale's trace of behaviour."},
       {.name = "period",
        .kind = config::duration(d.period, kTurn),
        .description = "Availability periodic: its length. Every device has a phase of its own."},
       {.name = "on_share",
        .kind = config::number(d.on_share, {.least = 0, .most = 1, .excluded = Excluded::least}),
        .description = "Availability periodic: the share of the period that a device can be reached for."},
       {.name = "mean_on",
        .kind = config::duration(d.mean_on, kTurn),
        .description = "Availability exponential: mean time that a device can be reached for."},
       {.name = "mean_off",
        .kind = config::duration(d.mean_off, kTurn),
        .description = "Availability exponential: mean time that it cannot be reached for."},
       {.name = "availability_file",
        .kind = config::readable_file(d.availability_file),
        .description = "Availability fedscale: a pickle of {id: {\"active\", \"inactive\", \"finish_time\"}} in "
                       "seconds, begun again after `finish_time`. Device i takes entry i modulo their number."}}};
}

Section network_section(LinkDefaults& link) {
  return {"network",
          "What the profile does not say of a device.",
          {{.name = "latency",
            .kind = config::duration(link.latency, {Duration(0), std::chrono::minutes(10)}),
            .description = "One way."},
           {.name = "jitter",
            .kind = config::number(link.jitter, kShare),
            .description = "A transfer takes up to this share longer or shorter."},
           {.name = "loss",
            .kind = config::number(link.loss, kShare),
            .description = "The share of the segments of 1460 bytes that are sent again, each for its time and a round "
                           "trip."},
           {.name = "failure_rate",
            .kind = config::number(link.failure_rate, kShare),
            .description = "The share of its plans that a device drops without an answer."}}};
}

std::vector<Key> class_keys(DeviceClass& one) {
  return {{.name = "share",
           .kind = config::number(one.share, {.least = 0, .most = 1e9, .excluded = Excluded::least}),
           .description = "Of the devices, relative to the sum over the classes."},
          {.name = "samples_per_s",
           .kind = config::number(one.samples_per_s.median, kRate),
           .description = "Median of the samples trained in a second."},
          {.name = "samples_sigma",
           .kind = config::number(one.samples_per_s.sigma, kSigma),
           .description = "Deviation of its logarithm; 0 is the median for all."},
          {.name = "uplink_kbit_per_s",
           .kind = config::number(one.uplink_kbit_per_s.median, kRate),
           .description = "Median from the device, in 1000 bits a second."},
          {.name = "uplink_sigma",
           .kind = config::number(one.uplink_kbit_per_s.sigma, kSigma),
           .description = "Deviation of its logarithm."},
          {.name = "downlink_kbit_per_s",
           .kind = config::number(one.downlink_kbit_per_s.median, kRate),
           .description = "Median to the device."},
          {.name = "downlink_sigma",
           .kind = config::number(one.downlink_kbit_per_s.sigma, kSigma),
           .description = "Deviation of its logarithm."}};
}

Key chance(std::string name, double& into, std::string description) {
  return {.name = std::move(name), .kind = config::number(into, kShare), .description = std::move(description)};
}

Section faults_section(Faults& f) {
  const config::Range<Duration> outage{std::chrono::milliseconds(1), std::chrono::hours(24)};
  return {"faults",
          "What goes wrong, by chance and the same in every run of the seed. `--faults LEVEL` sets them all.",
          {{.name = "seed", .kind = config::integer(f.seed), .description = "Of the faults; 0 takes `run.seed`."},
           chance("drops", f.drops, "Per message: it is lost, and the connection with it."),
           chance("delays", f.delays, "Per message: it comes later, by up to `delay_max`."),
           chance("duplicates", f.duplicates, "Per message: it comes twice."),
           chance("reorders", f.reorders, "Per message: the next one overtakes it."),
           chance("device_crashes", f.device_crashes,
                  "Per plan: the device dies at some step and comes back from its "
                  "storage."),
           chance("coordinator_crashes", f.coordinator_crashes,
                  "Per round: the coordinator dies at some step and recovers from its database."),
           chance("full_disks", f.full_disks, "Per write: there is no space, for up to `full_disk_max`."),
           chance("network_cuts", f.network_cuts,
                  "Per round: half of the devices cannot be reached, for up to `network_cut_max`."),
           chance("slow_readers", f.slow_readers,
                  "The share of the devices that read at a hundredth of their "
                  "downlink."),
           {.name = "delay_max",
            .kind = config::duration(f.delay_max, outage),
            .description = "The longest delay of a message."},
           {.name = "full_disk_max",
            .kind = config::duration(f.full_disk_max, outage),
            .description = "The longest time without space."},
           {.name = "network_cut_max",
            .kind = config::duration(f.network_cut_max, outage),
            .description = "The longest cut."}}};
}

Section machine_section(Experiment& e) {
  return {
      std::string(kMachineSection),
      "What it runs on. Of these keys only checkpoint_every and time_limit can change a result.",
      {{.name = "threads",
        .kind = config::integer(e.threads, {0, 1024}),
        .description = "Threads that train; 0 is one for each core."},
       {.name = "residual_budget",
        .kind = config::byte_size(e.residual_budget_bytes, {0, std::uint64_t{1} << 50}),
        .description = "Memory for what devices have not sent yet; what is beyond goes to a file."},
       {.name = "checkpoint_every",
        .kind = config::integer(e.checkpoint_every, {0, 1'000'000}),
        .description = "Rounds from one checkpoint to the next, 0 is none. At each everybody comes up anew from what "
                       "is stored, so that `--resume` goes on from there with the same result; another interval is "
                       "another experiment. `--checkpoint-every` goes before it."},
       {.name = "time_limit",
        .kind = config::duration(e.time_limit),
        .description = "Virtual time after which it ends whatever the round; 0s is none."},
       {.name = "output",
        .kind = config::directory_to_write(e.output),
        .description = "The directory for results and state; `--output` goes before it."}}};
}

Section training_device_section(Experiment& e) {
  return {"backend",
          "Backends agree in what they select and sum, bit for bit, and in training within rounding.",
          {{.name = "name",
            .kind = config::one_of(e.backend, {"auto", "cpu", "cuda", "reference"}),
            .description = "What the devices are trained on, on a GPU many at once; `auto` says what it chose."}}};
}

}  // namespace

config::Schema own_schema(ExperimentFile& file) {
  Experiment& e = file.experiment;
  config::Schema schema{{population_section(e.population), devices_section(e.devices), network_section(e.devices.link),
                         faults_section(e.faults), training_device_section(e), machine_section(e)},
                        {}};
  schema.named = {{"classes",
                   "The classes of profile lognormal, each rate with its median and the deviation of its logarithm.",
                   [&file](const std::string& name) {
                     file.classes.push_back({.name = name});
                     return class_keys(file.classes.back());
                   }}};
  return schema;
}

config::Schema whole_schema(ExperimentFile& file) {
  config::Schema schema = run_schema(file.run);
  config::Schema own = own_schema(file);
  std::ranges::move(own.sections, std::back_inserter(schema.sections));
  schema.named = std::move(own.named);
  return schema;
}

}  // namespace gleaner::simulation
