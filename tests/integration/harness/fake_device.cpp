#include "tests/integration/harness/fake_device.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>

namespace gleaner::testing {

FakeDevice::FakeDevice(const World& world, const std::string& certificate, const std::string& ca)
    : world_(world), files_(world.tls_files(certificate, ca)) {}

FakeDevice::~FakeDevice() { forget(); }

template <class T>
std::optional<T> FakeDevice::run(boost::asio::awaitable<T> work, milliseconds patience) {
  std::optional<T> result;
  boost::asio::cancellation_signal cancel;
  bool ended = false;
  boost::asio::co_spawn(io_, std::move(work),
                        boost::asio::bind_cancellation_slot(
                            cancel.slot(), [&result, &ended](const std::exception_ptr& error, std::optional<T> value) {
                              ended = true;
                              if (!error && value) result.emplace(std::move(*value));
                            }));
  const auto deadline = std::chrono::steady_clock::now() + patience;
  io_.restart();
  while (!ended && io_.run_one_until(deadline) > 0) {
  }
  if (!ended) {
    cancel.emit(boost::asio::cancellation_type::all);
    while (!ended && io_.run_one() > 0) {
    }
  }
  return result;
}

Status FakeDevice::connect() {
  auto context = TlsContext::make_client(files_, "127.0.0.1");
  if (!context) return fail(context.error());
  end_.clear();
  const auto opened =
      run(Link::connect(io_.get_executor(), "127.0.0.1", world_.port(), *context, LinkLimits{}), kPatience);
  if (!opened) return fail(ErrorCode::retry, "no connection in time");
  if (!*opened) return fail(opened->error());
  link_ = **opened;
  return {};
}

void FakeDevice::hello() { send(Hello{.software = "a test"}); }

void FakeDevice::send(const Message& message) { send_bytes(encode_frame(message)); }

void FakeDevice::send_bytes(Bytes bytes) {
  if (!link_) return;
  (void)run(link_->send_and_wait(std::move(bytes)), kPatience);
}

std::optional<Incoming> FakeDevice::next(milliseconds patience) {
  if (!link_) return std::nullopt;
  auto frame = run(link_->read(Sender::coordinator), patience);
  if (!frame) return std::nullopt;
  if (!*frame) {
    end_ = frame->error().message();
    link_.reset();
    return std::nullopt;
  }
  auto message = decode_body((*frame)->header, (*frame)->body.view());
  if (!message) {
    ADD_FAILURE() << "the coordinator sent what no device understands: " << message.error().message();
    return std::nullopt;
  }
  return Incoming{std::move(**frame), std::move(*message)};
}

bool FakeDevice::is_dropped(milliseconds patience) {
  while (next(patience)) {
  }
  return !end_.empty();
}

std::optional<Plan> FakeDevice::join(std::uint32_t samples) {
  forget();
  if (!eventually([this] { return connect().has_value(); })) return std::nullopt;
  hello();
  const auto offer = wait_for<Offer>();
  if (!offer) return std::nullopt;
  spec_ = offer->spec;
  send(Accept{.run = spec_.id, .samples = samples, .schema_hash = spec_.schema_hash});
  auto plan = wait_for<Plan>();
  if (plan) plan->sync_head = {};
  return plan;
}

void FakeDevice::forget() {
  if (link_) link_->close("done");
  link_.reset();
  io_.restart();
  io_.run_for(milliseconds(20));
}

}  // namespace gleaner::testing
