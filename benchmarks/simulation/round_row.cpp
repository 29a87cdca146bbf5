// The coordinator of a simulation and ten thousand devices that answer at once with updates made before.

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "benchmarks/simulation/rows.hpp"
#include "common/check.hpp"
#include "common/hash.hpp"
#include "common/random.hpp"
#include "compression/payload.hpp"
#include "coordinator/engine/model_owner.hpp"
#include "protocol/aligned_buffer.hpp"
#include "simulation/experiment.hpp"
#include "simulation/world/coordinator.hpp"

namespace gleaner::bench {
namespace {

namespace sim = gleaner::simulation;

constexpr std::uint32_t kDevices = 10'000;
constexpr std::uint32_t kRounds = 2;
constexpr std::uint32_t kPayloads = 16;
constexpr double kTarget = 3'000.0;

const char* const kFile =
    "[run]\nname = \"round\"\nrecipe = \"topk\"\nreproducible = true\nrounds = 2\nseed = 1\n[model]\nname = \"mlp\"\n"
    "[data]\nname = \"fashion-mnist\"\n[compression]\ndensity = 0.01\n[cohort]\nsize = 10000\nmin_devices = 10000\n"
    "[population]\ndevices = 10000\n[evaluation]\nevery = 1000\n";

class AlikeDevices final : public sim::Devices {
 public:
  sim::DeviceTraits traits(std::uint32_t) const override {
    return {.samples_per_s = 1e6, .uplink_bytes_per_s = 1e6, .downlink_bytes_per_s = 1e7};
  }
  sim::Availability availability(std::uint32_t, Instant) const override { return {}; }
};

class Replay final : private sim::VirtualNetwork::Ends {
 public:
  explicit Replay(const sim::Experiment& experiment) : settings_(experiment.run), names_(kDevices), pool_(1) {
    folder_ = (std::filesystem::temp_directory_path() / "gleaner-round-XXXXXX").string();
    GLEANER_CHECK(::mkdtemp(folder_.data()) != nullptr);
    make_payloads();
    network_.emplace(sim::VirtualNetwork::Needs{
        .time = &time_, .devices = &devices_, .ends = this, .count = kDevices, .seed = 1, .faults = {}});
    sim::Coordinator::Needs needs{.time = &time_,
                                  .network = &*network_,
                                  .names = &names_,
                                  .pool = &pool_,
                                  .kernels = *kernels_for(Backend::cpu),
                                  .evaluation = nullptr,
                                  .database = folder_ + "/run.db",
                                  .settings = settings_,
                                  .devices = kDevices};
    needs.on_progress = [] {};
    needs.on_finished = [this] { finished_ = true; };
    needs.on_fatal = [](const Error& error) { throw std::runtime_error(error.message()); };
    coordinator_.emplace(std::move(needs));
    GLEANER_CHECK(coordinator_->create_run().has_value());
    GLEANER_CHECK(coordinator_->open().has_value());
    coordinator_->start();
    for (std::uint32_t device = 0; device < kDevices; ++device) network_->connect(device);
  }
  ~Replay() override {
    time_.clear();
    coordinator_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Until everybody waits for the first plan.
  void join() {
    while (accepted_ < kDevices) GLEANER_CHECK(time_.step());
  }
  void run() {
    while (!finished_) GLEANER_CHECK(time_.step());
    GLEANER_CHECK(coordinator_->engine().status().counters.uploads == std::uint64_t{kDevices} * kRounds);
  }
  std::size_t payload_bytes() const { return payloads_.front().bytes.size(); }

 private:
  struct Payload {
    Bytes bytes;
    Digest digest;
  };

  void make_payloads() {
    const auto model = model_of(settings_);
    GLEANER_CHECK(model.has_value());
    const Grouping grouping = upload_grouping(settings_.spec, tensor_grouping(*model));
    const std::uint32_t dimension = settings_.spec.dimension;
    const std::uint32_t gap = 100;
    for (std::uint32_t i = 0; i < kPayloads; ++i) {
      Random random(i, Purpose::test);
      SparseVector update{.dimension = dimension, .indices = {}, .values = {}};
      for (std::uint32_t at = 0; at + gap <= dimension; at += gap) {
        update.indices.push_back(at + random.below(gap));
        update.values.push_back(static_cast<float>(random.normal()) * 0.01F);
      }
      auto format = parse_value_format(settings_.spec.value_format_up);
      GLEANER_CHECK(format.has_value());
      auto encoded = encode_payload(update, grouping, *format, std::ldexp(1.0F, settings_.spec.clip_exponent));
      const Digest digest = digest_of(encoded.bytes);
      payloads_.push_back({std::move(encoded.bytes), digest});
    }
  }

  void connected(std::uint32_t device) override {
    coordinator_->connected(device);
    network_->send_up(device, encode_frame(Hello{.software = "bench", .capabilities = {}}));
  }
  void disconnected(std::uint32_t, const std::string& reason) override { throw std::runtime_error(reason); }
  void arrived_up(std::uint32_t device, const Bytes& frame, Duration sending) override {
    coordinator_->arrived(device, frame, sending);
  }
  void arrived_down(std::uint32_t device, const Bytes& frame) override {
    const auto header = decode_header(std::span(frame).first<FrameHeader::kBytes>(), Sender::coordinator);
    GLEANER_CHECK(header.has_value());
    const AlignedBuffer body = AlignedBuffer::copy_of(ByteView(frame).subspan(FrameHeader::kBytes));
    const auto message = decode_body(*header, body.view());
    GLEANER_CHECK(message.has_value());
    if (const auto* offer = std::get_if<Offer>(&*message)) {
      ++accepted_;
      Accept accept{.run = offer->spec.id, .samples = 10, .schema_hash = offer->spec.schema_hash};
      network_->send_up(device, encode_frame(accept));
    } else if (const auto* plan = std::get_if<Plan>(&*message)) {
      const Payload& payload = payloads_[(device + plan->round) % kPayloads];
      Update update{.plan = plan->id,
                    .digest = payload.digest,
                    .samples = 10,
                    .total_bytes = static_cast<std::uint32_t>(payload.bytes.size())};
      update.left = 1.0F;
      update.bytes = payload.bytes;
      network_->send_up(device, encode_frame(update));
    }
  }

  RunSettings settings_;
  sim::Names names_;
  WorkerPool pool_;
  std::string folder_;
  sim::VirtualTime time_;
  AlikeDevices devices_;
  std::vector<Payload> payloads_;
  std::optional<sim::VirtualNetwork> network_;
  std::optional<sim::Coordinator> coordinator_;
  std::uint32_t accepted_ = 0;
  bool finished_ = false;
};

}  // namespace

void measure_round(int turns, KernelRows& rows) {
  auto experiment = sim::parse_experiment(kFile, "round.toml");
  if (!experiment) throw std::runtime_error(experiment.error().message());
  std::optional<Replay> replay;
  const auto times = take_turns({{[&] { replay->run(); },
                                  [&] {
                                    replay.reset();
                                    replay.emplace(*experiment);
                                    replay->join();
                                  }}},
                                turns);
  const double updates = double{kDevices} * kRounds;
  rows.push_back(
      {.name = "round_10000",
       .text = fmt::format("updates/s through frames, decoding, admission, sum, step and commit on one thread: "
                           "{} rounds of {} devices without training, {} parameters, k = 1 %, {} bytes each",
                           kRounds, kDevices, experiment->run.spec.dimension, replay->payload_bytes()),
       .value = updates / median(times[0]) * 1000.0,
       .limit = Limit::at_least,
       .target = kTarget,
       .beside = {{"a round", median(times[0]) / kRounds, "ms"}},
       .open = {}});
}

}  // namespace gleaner::bench
