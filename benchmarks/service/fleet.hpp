#pragma once
// Devices without training, over real links: idle ones, and such that answer every plan at once with a payload that was
// encoded beforehand. One thread of its own; the public calls block and are for one other thread.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "benchmarks/service/bed.hpp"
#include "common/bytes.hpp"
#include "common/clock.hpp"
#include "common/ids.hpp"
#include "protocol/link/link.hpp"
#include "protocol/link/task_group.hpp"
#include "protocol/messages.hpp"

namespace gleaner::bench {

struct Payload {
  Bytes bytes;
  Digest digest;
};
// Random values at random places, one in each of equal stretches, coded as a device codes them.
Payload random_payload(std::uint64_t seed, std::uint32_t dimension, std::uint32_t entries);

// Connects and says hello; the link is welcome when it returns.
boost::asio::awaitable<Result<std::shared_ptr<Link>>> join(boost::asio::any_io_executor executor, std::uint16_t port,
                                                           TlsFiles files);

struct FleetLoad {
  std::uint32_t first_device = 0;
  std::uint32_t devices = 0;
  std::vector<Payload> payloads;  // device i sends payload i; none: idle devices, which accept no run
};

class Fleet {
 public:
  // Makes the certificates; connects nobody yet.
  static Result<std::unique_ptr<Fleet>> make(const Bed& bed, std::uint16_t port, FleetLoad load);
  ~Fleet();

  // Until so many devices, counted from the first, were welcomed.
  Status connect(std::uint32_t devices, Duration timeout);
  // Until every device holds a plan that it may not answer yet.
  Status wait_for_plans(Duration timeout);
  // Lets the plans at hand and those of `rounds` further rounds be answered, until every device holds the plan of the
  // round after them. For each further round: milliseconds from its first plan to the first plan of the next.
  Result<std::vector<double>> run_rounds(std::uint32_t rounds, Duration timeout);
  std::uint32_t refusals();

 private:
  Fleet(std::uint16_t port, FleetLoad load) : port_(port), load_(std::move(load)) {}

  boost::asio::awaitable<void> live(std::uint32_t index);
  void receive(std::uint32_t index, Link& link, const Message& message);
  void answer(std::uint32_t index, const Plan& plan);
  void connect_next();
  void fail_with(const Error& error);
  Status wait_until(const std::function<bool()>& done, Duration timeout, const char* what);

  const std::uint16_t port_;
  const FleetLoad load_;
  std::vector<TlsFiles> files_;

  // The thread's own.
  boost::asio::io_context io_{1};
  std::optional<TaskGroup> tasks_;
  std::vector<std::shared_ptr<Link>> links_;
  std::uint32_t next_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex.
  std::optional<Error> error_;
  std::uint32_t wanted_ = 0;
  std::uint32_t joined_ = 0;
  std::uint32_t round_ = 0;
  std::uint32_t last_round_ = 0;            // whose plans are answered at once
  std::map<std::uint32_t, Plan> held_;      // by device
  std::map<std::uint32_t, Instant> begun_;  // rounds, by their first plan
  std::uint32_t refusals_ = 0;

  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread thread_;
};

// Round trips of heartbeats on a link that does nothing else: how long the coordinator's network thread lets wait.
class Prober {
 public:
  static Result<std::unique_ptr<Prober>> join(const Bed& bed, std::uint16_t port, std::uint32_t device);
  ~Prober();

  // Milliseconds of each round trip, one begun every millisecond, for that long.
  Result<std::vector<double>> probe(Duration length);

 private:
  Prober() = default;
  boost::asio::awaitable<void> open(std::uint16_t port, TlsFiles files);
  boost::asio::awaitable<void> measure(Duration length);

  boost::asio::io_context io_{1};
  std::shared_ptr<Link> link_;
  std::optional<Error> error_;
  std::vector<double> times_ms_;
};

}  // namespace gleaner::bench
