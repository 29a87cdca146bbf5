#pragma once
// A bound on bytes in flight over all connections: who wants more than is left waits its turn, first come, first
// served. Loop thread only.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <deque>
#include <memory>

namespace gleaner {

class Credit {
 public:
  explicit Credit(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Waits until `bytes` (at most bytes_max: more counts as bytes_max) are free and takes them. False when `alive`
  // turned false or close() was called meanwhile; then nothing was taken. alive must stay valid until it returns.
  boost::asio::awaitable<bool> take(std::uint64_t bytes, std::shared_ptr<const bool> alive);
  void give(std::uint64_t bytes);
  // Lets those who wait see that their connection is gone.
  void wake_all();
  void close();

  // True when take() would not wait.
  bool has_room(std::uint64_t bytes) const;
  std::uint64_t used_bytes() const { return used_; }
  std::uint64_t bytes_max() const { return bytes_max_; }

 private:
  using Turn = std::shared_ptr<boost::asio::steady_timer>;
  void leave(const Turn& turn);

  std::uint64_t bytes_max_;
  std::uint64_t used_ = 0;
  bool closed_ = false;
  std::deque<Turn> waiting_;
};

}  // namespace gleaner
