#pragma once
// What the same machine does without Gleaner: a server of plain asio::ssl::stream connections with mutual TLS 1.3, as a
// process of its own, and links to it. Memory per connection and rounds without any work are measured on it.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "benchmarks/service/bed.hpp"
#include "benchmarks/service/child.hpp"

namespace gleaner::bench {

// In bytes of the plain text; a round is one plan to every link and one answer from every link.
struct PlainRound {
  std::uint32_t links = 0;
  std::uint32_t plan_bytes = 0;
  std::uint32_t answer_bytes = 0;
};

// The process: `bench_service plain-server ...` ends up here, and stays until it is killed.
int run_plain_server(const TlsFiles& files, const PlainRound& round, int ready_fd);
// `bench_service plain-client ...`: one link to a coordinator, and nothing else.
int run_plain_client(const TlsFiles& files, std::uint16_t port, int ready_fd);

class PlainFleet {
 public:
  static Result<std::unique_ptr<PlainFleet>> make(const Bed& bed, const PlainRound& round);

  Status connect();  // all links, and the server's first bytes on each
  const Child& server() const { return server_; }
  // Milliseconds from the first plan of a round to the first plan of the next, `rounds` times.
  Result<std::vector<double>> run_rounds(std::uint32_t rounds);

 private:
  using Stream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket>;
  PlainFleet(Child server, std::uint16_t port, const PlainRound& round)
      : server_(std::move(server)), port_(port), round_(round) {}
  boost::asio::awaitable<void> open(std::uint32_t index);
  boost::asio::awaitable<void> answer_plans(std::uint32_t index, std::uint32_t rounds);
  Status run_until_idle();

  Child server_;
  const std::uint16_t port_;
  const PlainRound round_;
  boost::asio::io_context io_{1};
  boost::asio::ssl::context tls_{boost::asio::ssl::context::tlsv13_client};
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::byte> answer_;
  std::vector<Instant> begun_;  // rounds, by their first plan
  std::string trouble_;
};

}  // namespace gleaner::bench
