#pragma once
// Accepts TCP connections and keeps accepting when descriptors run out. On one executor, like Link.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "common/error.hpp"

namespace gleaner {

class Acceptor {
 public:
  // host: an address or a name of this machine; "::" takes IPv4 too. port 0: one that is free. Errors: bad_input when
  // it is no address of this machine, conflict when somebody listens there.
  static Result<std::unique_ptr<Acceptor>> listen(const boost::asio::any_io_executor& executor, const std::string& host,
                                                  std::uint16_t port);

  // The next connection. Out of descriptors or memory it waits and tries again, and logs that once in ten seconds.
  // Fails (retry) only after close(), or when cancelled.
  boost::asio::awaitable<Result<boost::asio::ip::tcp::socket>> accept();

  // Ends a waiting accept.
  void close();

  boost::asio::ip::tcp::endpoint endpoint() const { return endpoint_; }
  std::uint64_t shortages() const { return shortages_; }  // how often it waited for descriptors

 private:
  explicit Acceptor(const boost::asio::any_io_executor& executor) : acceptor_(executor), pause_(executor) {}
  void log_shortage(const std::string& why);

  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  boost::asio::ip::tcp::endpoint endpoint_;
  std::uint64_t shortages_ = 0;
  std::uint64_t shortages_logged_ = 0;
  std::chrono::steady_clock::time_point next_log_;
};

// Raises the soft limit of open files to the hard one and returns it: each connection needs one.
std::size_t raise_descriptor_limit();

}  // namespace gleaner
