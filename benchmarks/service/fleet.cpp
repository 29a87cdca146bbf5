#include "benchmarks/service/fleet.hpp"

#include <fmt/format.h>
#include <exception>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "common/hash.hpp"
#include "common/random.hpp"
#include "compression/payload.hpp"
#include "protocol/link/acceptor.hpp"

namespace gleaner::bench {
namespace {

// A load that broke measures nothing: it ends the program.
void fail_loudly(const std::exception_ptr& thrown) {
  if (thrown) std::rethrow_exception(thrown);
}

namespace asio = boost::asio;

constexpr std::uint32_t kHandshakesAtOnce = 32;
constexpr std::uint32_t kSamples = 600;
constexpr float kClip = 0x1p10F;

}  // namespace

Payload random_payload(std::uint64_t seed, std::uint32_t dimension, std::uint32_t entries) {
  // One index from each of `entries` equal stretches.
  Random random(seed, Purpose::test);
  SparseVector vector{.dimension = dimension, .indices = {}, .values = {}};
  vector.indices.reserve(entries);
  vector.values.reserve(entries);
  for (std::uint64_t i = 0; i < entries; ++i) {
    const auto begin = static_cast<std::uint32_t>(i * dimension / entries);
    const auto end = static_cast<std::uint32_t>((i + 1) * dimension / entries);
    vector.indices.push_back(begin + random.below(end - begin));
    vector.values.push_back(static_cast<float>(random.below(2001)) * 1e-5F - 0.01F);
  }
  auto encoded = encode_payload(vector, Grouping{{dimension}}, ValueFormat::int8, kClip);
  const Digest digest = digest_of(encoded.bytes);
  return {std::move(encoded.bytes), digest};
}

asio::awaitable<Result<std::shared_ptr<Link>>> join(asio::any_io_executor executor, std::uint16_t port,
                                                    TlsFiles files) {
  const auto context = TlsContext::make_client(files, "127.0.0.1");
  if (!context) co_return fail(context.error());
  LinkLimits limits;
  limits.handshake_timeout = std::chrono::seconds(60);
  limits.idle_timeout = std::chrono::minutes(10);
  limits.write_waits_while_heard = true;
  std::string host = "127.0.0.1";
  auto link = co_await Link::connect(executor, std::move(host), port, *context, limits);
  if (!link) co_return fail(link.error());
  Hello hello;
  hello.software = "bench";
  if (const Status sent = (*link)->send(encode_frame(hello)); !sent) co_return fail(sent.error());
  const auto frame = co_await (*link)->read(Sender::coordinator);
  if (!frame) co_return fail(frame.error());
  const auto message = decode_body(frame->header, frame->body.view());
  if (!message) co_return fail(message.error());
  if (!std::holds_alternative<Welcome>(*message)) co_return fail(ErrorCode::fatal, "a device was not welcomed");
  co_return *link;
}

Result<std::unique_ptr<Fleet>> Fleet::make(const Bed& bed, std::uint16_t port, FleetLoad load) {
  raise_descriptor_limit();
  const std::uint32_t devices = load.devices;
  std::unique_ptr<Fleet> fleet(new Fleet(port, std::move(load)));
  for (std::uint32_t i = 0; i < devices; ++i) {
    GLEANER_ASSIGN(auto files, bed.device(fleet->load_.first_device + i));
    fleet->files_.push_back(std::move(files));
  }
  fleet->links_.resize(devices);
  fleet->tasks_.emplace(fleet->io_.get_executor(), devices + 1);
  fleet->thread_ = std::thread([&fleet = *fleet] { fleet.io_.run(); });
  return fleet;
}

Fleet::~Fleet() {
  asio::post(io_, [this] {
    for (const auto& link : links_) {
      if (link) link->close("the benchmark is over");
    }
    tasks_->cancel();
    work_.reset();
  });
  if (thread_.joinable()) thread_.join();
}

void Fleet::fail_with(const Error& error) {
  const std::scoped_lock lock(mutex_);
  if (!error_) error_ = error;
  changed_.notify_all();
}

Status Fleet::wait_until(const std::function<bool()>& done, Duration timeout, const char* what) {
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_for(lock, timeout, [&] { return error_ || done(); });
  if (error_) return fail(*error_);
  if (!in_time) return fail(ErrorCode::retry, fmt::format("{}: not within {:.0f} s", what, to_seconds(timeout)));
  return {};
}

void Fleet::connect_next() {
  {
    const std::scoped_lock lock(mutex_);
    if (next_ >= wanted_) return;
  }
  const std::uint32_t index = next_++;
  auto task = live(index);
  if (const Status spawned = tasks_->spawn("device", std::move(task)); !spawned) fail_with(spawned.error());
}

Status Fleet::connect(std::uint32_t devices, Duration timeout) {
  {
    const std::scoped_lock lock(mutex_);
    wanted_ = devices;
  }
  asio::post(io_, [this] {
    for (std::uint32_t i = 0; i < kHandshakesAtOnce; ++i) connect_next();
  });
  return wait_until([&] { return joined_ == devices; }, timeout, "connecting the devices");
}

asio::awaitable<void> Fleet::live(std::uint32_t index) {
  auto link = co_await join(io_.get_executor(), port_, files_[index]);
  if (!link) {
    fail_with(link.error().within(Bed::device_name(load_.first_device + index)));
    co_return;
  }
  links_[index] = *link;
  {
    const std::scoped_lock lock(mutex_);
    ++joined_;
    changed_.notify_all();
  }
  connect_next();
  for (;;) {
    const auto frame = co_await (*link)->read(Sender::coordinator);
    if (!frame) break;  // over, or the coordinator ended: who waits for something says so
    const auto message = decode_body(frame->header, frame->body.view());
    if (!message) {
      fail_with(message.error());
      break;
    }
    receive(index, **link, *message);
  }
}

void Fleet::receive(std::uint32_t index, Link& link, const Message& message) {
  if (const auto* offer = std::get_if<Offer>(&message); offer != nullptr && !load_.payloads.empty()) {
    Accept accept;
    accept.run = offer->spec.id;
    accept.samples = kSamples;
    accept.schema_hash = offer->spec.schema_hash;
    if (const Status sent = link.send(encode_frame(accept)); !sent) fail_with(sent.error());
  } else if (const auto* plan = std::get_if<Plan>(&message)) {
    bool now = false;
    {
      const std::scoped_lock lock(mutex_);
      if (plan->round > round_) {
        round_ = plan->round;
        begun_[round_] = system_clock().now();
      }
      now = plan->round <= last_round_;
      if (!now) held_[index] = *plan;
      if (held_.size() == load_.devices) changed_.notify_all();
    }
    if (now) answer(index, *plan);
  } else if (std::holds_alternative<Refused>(message)) {
    const std::scoped_lock lock(mutex_);
    ++refusals_;
  }
}

void Fleet::answer(std::uint32_t index, const Plan& plan) {
  const Payload& payload = load_.payloads[index % load_.payloads.size()];
  const Update update{.plan = plan.id,
                      .digest = payload.digest,
                      .samples = kSamples,
                      .total_bytes = static_cast<std::uint32_t>(payload.bytes.size()),
                      .compute_ms = 1000,
                      .left = 1.0F,
                      .right = 0.0F,
                      .loss = 1.0F,
                      .bytes = payload.bytes};
  if (const Status sent = links_[index]->send(encode_frame(update)); !sent) fail_with(sent.error());
}

Status Fleet::wait_for_plans(Duration timeout) {
  return wait_until([&] { return held_.size() == load_.devices; }, timeout, "waiting for plans");
}

Result<std::vector<double>> Fleet::run_rounds(std::uint32_t rounds, Duration timeout) {
  GLEANER_TRY(wait_for_plans(timeout));
  std::uint32_t first = 0;
  {
    const std::scoped_lock lock(mutex_);
    first = round_ + 1;
    last_round_ = round_ + rounds;
  }
  asio::post(io_, [this] {
    std::map<std::uint32_t, Plan> held;
    {
      const std::scoped_lock lock(mutex_);
      held.swap(held_);
    }
    for (const auto& [index, plan] : held) answer(index, plan);
  });
  GLEANER_TRY(wait_until([&] { return round_ == last_round_ + 1 && held_.size() == load_.devices; }, timeout,
                         "running rounds"));
  const std::scoped_lock lock(mutex_);
  std::vector<double> times_ms;
  for (std::uint32_t round = first; round < first + rounds; ++round) {
    times_ms.push_back(1e3 * to_seconds(begun_.at(round + 1) - begun_.at(round)));
  }
  return times_ms;
}

std::uint32_t Fleet::refusals() {
  const std::scoped_lock lock(mutex_);
  return refusals_;
}

Result<std::unique_ptr<Prober>> Prober::join(const Bed& bed, std::uint16_t port, std::uint32_t device) {
  GLEANER_ASSIGN(auto files, bed.device(device));
  std::unique_ptr<Prober> prober(new Prober());
  asio::co_spawn(prober->io_, prober->open(port, std::move(files)), fail_loudly);
  while (!prober->link_ && !prober->error_ && prober->io_.run_one() > 0) {
  }
  if (prober->error_) return fail(*prober->error_);
  return prober;
}

Prober::~Prober() {
  if (!link_) return;
  link_->close("the benchmark is over");
  io_.restart();
  io_.run_for(std::chrono::seconds(1));
}

asio::awaitable<void> Prober::open(std::uint16_t port, TlsFiles files) {
  auto link = co_await bench::join(io_.get_executor(), port, std::move(files));
  if (link) {
    link_ = *link;
  } else {
    error_ = link.error();
  }
}

asio::awaitable<void> Prober::measure(Duration length) {
  asio::steady_timer pause(io_);
  const Clock& clock = system_clock();
  const Instant end = clock.now() + length;
  while (clock.now() < end) {
    const Instant sent = clock.now();
    const Status queued = link_->send(encode_frame(Heartbeat{}));
    bool answered = false;
    while (queued && !answered) {
      const auto frame = co_await link_->read(Sender::coordinator);
      if (!frame) {
        error_ = frame.error();
        co_return;
      }
      answered = frame_name(frame->header.type) == "Heartbeat";
    }
    times_ms_.push_back(1e3 * to_seconds(clock.now() - sent));
    pause.expires_after(std::chrono::milliseconds(1));
    co_await pause.async_wait(asio::use_awaitable);
  }
}

Result<std::vector<double>> Prober::probe(Duration length) {
  times_ms_.clear();
  bool done = false;
  asio::co_spawn(io_, measure(length), [&](const std::exception_ptr&) { done = true; });
  io_.restart();
  while (!done && !error_ && io_.run_one() > 0) {
  }
  if (error_) return fail(*error_);
  return times_ms_;
}

}  // namespace gleaner::bench
