#include "benchmarks/service/plain_peer.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <exception>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <charconv>

#include "benchmarks/service/fleet.hpp"
#include "protocol/link/acceptor.hpp"

namespace gleaner::bench {
namespace {

// A load that broke measures nothing: it ends the program.
void fail_loudly(const std::exception_ptr& thrown) {
  if (thrown) std::rethrow_exception(thrown);
}

namespace asio = boost::asio;
using asio::ip::tcp;
using Stream = asio::ssl::stream<tcp::socket>;

constexpr std::uint32_t kGreetingBytes = 16;
constexpr std::uint32_t kHandshakesAtOnce = 32;

void use_files(asio::ssl::context& context, const TlsFiles& files) {
  context.load_verify_file(files.ca);
  context.use_certificate_chain_file(files.certificate);
  context.use_private_key_file(files.key, asio::ssl::context::pem);
  context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
}

void tell(int descriptor, const std::string& line) {
  if (::write(descriptor, line.data(), line.size()) < 0) std::perror("the ready descriptor");
  ::close(descriptor);
}

// A link greets and is greeted. Then the first link asks for rounds (u32), and every link gets and answers that many
// plans.
class PlainServer {
 public:
  PlainServer(const TlsFiles& files, const PlainRound& round)
      : round_(round), plan_(round.plan_bytes), acceptor_(io_, {asio::ip::address_v4::loopback(), 0}) {
    use_files(tls_, files);
  }
  void run(int ready_fd) {
    asio::co_spawn(io_, accept_all(), fail_loudly);
    tell(ready_fd, fmt::format("{}\n", acceptor_.local_endpoint().port()));
    io_.run();
  }

 private:
  asio::awaitable<void> accept_all() {
    for (;;) {
      tcp::socket socket = co_await acceptor_.async_accept(asio::use_awaitable);
      auto stream = std::make_shared<Stream>(std::move(socket), tls_);
      asio::co_spawn(io_, serve(stream), fail_loudly);
    }
  }
  asio::awaitable<void> serve(std::shared_ptr<Stream> stream) {
    stream->next_layer().set_option(tcp::no_delay(true));
    co_await stream->async_handshake(asio::ssl::stream_base::server, asio::use_awaitable);
    std::array<std::byte, kGreetingBytes> greeting{};
    co_await asio::async_read(*stream, asio::buffer(greeting), asio::use_awaitable);
    co_await asio::async_write(*stream, asio::buffer(greeting), asio::use_awaitable);
    streams_.push_back(stream);
    const bool asks = greeting[0] == std::byte{0};
    while (asks) {
      std::uint32_t rounds = 0;
      co_await asio::async_read(*stream, asio::buffer(&rounds, sizeof(rounds)), asio::use_awaitable);
      rounds_left_ = rounds;
      begin_round();
      for (std::uint32_t i = 0; i < rounds; ++i) co_await read_answer(*stream);
    }
    for (;;) co_await read_answer(*stream);
  }
  // An idle link holds no memory for an answer.
  asio::awaitable<void> read_answer(Stream& stream) {
    std::byte first{};
    co_await asio::async_read(stream, asio::buffer(&first, 1), asio::use_awaitable);
    std::vector<std::byte> rest(round_.answer_bytes - 1);
    co_await asio::async_read(stream, asio::buffer(rest), asio::use_awaitable);
    if (++answers_ == streams_.size()) begin_round();
  }
  void begin_round() {
    answers_ = 0;
    if (rounds_left_ == 0) return;
    --rounds_left_;
    for (const auto& stream : streams_) asio::co_spawn(io_, send_plan(stream), fail_loudly);
  }
  asio::awaitable<void> send_plan(std::shared_ptr<Stream> stream) {
    co_await asio::async_write(*stream, asio::buffer(plan_), asio::use_awaitable);
  }

  const PlainRound round_;
  const std::vector<std::byte> plan_;
  asio::io_context io_{1};
  asio::ssl::context tls_{asio::ssl::context::tlsv13_server};
  tcp::acceptor acceptor_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::size_t answers_ = 0;
  std::uint32_t rounds_left_ = 0;
};

asio::awaitable<void> hold_one_link(asio::io_context& io, std::uint16_t port, TlsFiles files, int ready_fd) {
  auto link = co_await join(io.get_executor(), port, std::move(files));
  tell(ready_fd, link ? "joined\n" : link.error().message() + "\n");
  while (link) {
    const auto frame = co_await (*link)->read(Sender::coordinator);
    if (!frame) co_return;
  }
}

}  // namespace

int run_plain_server(const TlsFiles& files, const PlainRound& round, int ready_fd) {
  raise_descriptor_limit();
  PlainServer(files, round).run(ready_fd);
  return 0;
}

int run_plain_client(const TlsFiles& files, std::uint16_t port, int ready_fd) {
  asio::io_context io{1};
  asio::co_spawn(io, hold_one_link(io, port, files, ready_fd), fail_loudly);
  io.run();
  return 0;
}

Result<std::unique_ptr<PlainFleet>> PlainFleet::make(const Bed& bed, const PlainRound& round) {
  raise_descriptor_limit();
  const TlsFiles server = bed.coordinator();
  GLEANER_ASSIGN(Child process, Child::start({own_program(), "plain-server", server.ca, server.certificate, server.key,
                                              std::to_string(round.links), std::to_string(round.plan_bytes),
                                              std::to_string(round.answer_bytes), "{ready}"},
                                             bed.at("plain-server.log")));
  GLEANER_ASSIGN(const std::string line, process.ready_line(std::chrono::seconds(20)));
  std::uint16_t port = 0;
  std::from_chars(line.data(), line.data() + line.size(), port);
  GLEANER_ASSIGN(const TlsFiles device, bed.device(0));
  std::unique_ptr<PlainFleet> fleet(new PlainFleet(std::move(process), port, round));
  use_files(fleet->tls_, device);
  fleet->streams_.resize(round.links);
  fleet->answer_.resize(round.answer_bytes);
  return fleet;
}

Status PlainFleet::run_until_idle() {
  io_.restart();
  io_.run();
  if (!trouble_.empty()) return fail(ErrorCode::fatal, "the plain links: " + trouble_);
  return {};
}

asio::awaitable<void> PlainFleet::open(std::uint32_t index) {
  for (; index < round_.links; index += kHandshakesAtOnce) {
    auto stream = std::make_unique<Stream>(io_, tls_);
    const tcp::endpoint server(asio::ip::address_v4::loopback(), port_);
    co_await stream->next_layer().async_connect(server, asio::use_awaitable);
    stream->next_layer().set_option(tcp::no_delay(true));
    co_await stream->async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
    std::array<std::byte, kGreetingBytes> greeting{};
    greeting[0] = index == 0 ? std::byte{0} : std::byte{1};
    co_await asio::async_write(*stream, asio::buffer(greeting), asio::use_awaitable);
    co_await asio::async_read(*stream, asio::buffer(greeting), asio::use_awaitable);
    streams_[index] = std::move(stream);
  }
}

Status PlainFleet::connect() {
  for (std::uint32_t i = 0; i < kHandshakesAtOnce; ++i) {
    asio::co_spawn(io_, open(i), [this](const std::exception_ptr& error) {
      if (error) trouble_ = "a handshake failed";
    });
  }
  return run_until_idle();
}

asio::awaitable<void> PlainFleet::answer_plans(std::uint32_t index, std::uint32_t rounds) {
  Stream& stream = *streams_[index];
  std::vector<std::byte> plan(round_.plan_bytes);
  if (index == 0) co_await asio::async_write(stream, asio::buffer(&rounds, sizeof(rounds)), asio::use_awaitable);
  for (std::uint32_t i = 0; i < rounds; ++i) {
    co_await asio::async_read(stream, asio::buffer(plan), asio::use_awaitable);
    if (begun_.size() == i) begun_.push_back(system_clock().now());
    co_await asio::async_write(stream, asio::buffer(answer_), asio::use_awaitable);
  }
}

Result<std::vector<double>> PlainFleet::run_rounds(std::uint32_t rounds) {
  begun_.clear();
  for (std::uint32_t i = 0; i < round_.links; ++i) {
    asio::co_spawn(io_, answer_plans(i, rounds + 1), [this](const std::exception_ptr& error) {
      if (error) trouble_ = "a round broke";
    });
  }
  GLEANER_TRY(run_until_idle());
  std::vector<double> times_ms;
  for (std::uint32_t i = 0; i < rounds; ++i) times_ms.push_back(1e3 * to_seconds(begun_[i + 1] - begun_[i]));
  return times_ms;
}

}  // namespace gleaner::bench
