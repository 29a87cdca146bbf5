#pragma once
// Runs CUDA kernels on the CPU, one fiber a thread and one block after another, to find out whether they are right; it
// says nothing about speed. A seed decides the order of the blocks, which thread goes on when several can, and where
// atomics are interrupted. Shared memory is filled with noise before every block. What CUDA leaves undefined is an
// error here: barriers that not every thread reaches, lanes outside the mask, warps that meet in different operations.
// Not found: races that no interleaving at barriers, warp operations and atomics shows. One OS thread a machine.

#include <array>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace gleaner::cuda::emulation {

struct Grid {
  unsigned blocks = 1;
  unsigned threads = 1;
  std::size_t dynamic_shared_bytes = 0;
};

class Launcher {
 public:
  virtual int launch(const char* kernel, const Grid& grid, const std::function<void()>& body) = 0;

 protected:
  ~Launcher() = default;
};

constexpr unsigned kWarpSize = 32;

// What the lanes of a warp bring to an operation, and take from it.
struct WarpExchange {
  std::array<std::uint64_t, kWarpSize> value = {};
  std::array<unsigned, kWarpSize> argument = {};
  std::array<std::uint64_t, kWarpSize> result = {};
  unsigned waiting = 0;  // lanes that are in an operation
  unsigned alive = 0;    // lanes that have not ended
};

class Machine {
 public:
  // Seed 0 is the plain order: blocks and threads ascending, no interruptions.
  explicit Machine(std::uint64_t seed);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Every thread of the grid calls body. The Error names the kernel, the block and the thread.
  Status run(std::string_view kernel, const Grid& grid, const std::function<void()>& body);

  // The rest is for the threads of a kernel (thread.hpp). current() is the machine that runs on this OS thread.
  static Machine& current();
  unsigned block() const { return block_; }
  unsigned thread() const { return thread_; }
  const Grid& grid() const { return *grid_; }

  // Every thread of the block must come to the same place.
  void sync_block(const std::source_location& where);

  // Evaluates an operation once, for all lanes of the mask, when the last of them comes; returns this lane's result.
  using Evaluate = void (*)(WarpExchange& exchange, unsigned mask);
  std::uint64_t meet(unsigned mask, Evaluate evaluate, std::uint64_t value, unsigned argument,
                     const std::source_location& where);

  // The block's object of that key, the same for all its threads; noise until it is written.
  void* shared(const void* key, std::size_t bytes);
  std::byte* dynamic_shared() { return dynamic_shared_.get(); }

  void before_atomic();  // another thread may go first

  // By the evaluation of an operation: the thread that came last is wrong.
  [[noreturn]] void fault_in_operation(const std::string& what) const;

 private:
  enum class Waits { for_work, for_turn, for_block, for_warp };

  struct Stack;
  struct Fiber {
    boost::context::fiber inside;  // where the thread goes on
    boost::context::fiber outside;
    std::unique_ptr<Stack> stack;
    Waits waits = Waits::for_work;
    unsigned mask = 0;  // of the warp operation that it waits in
    Evaluate operation = nullptr;
    std::source_location where;
  };
  struct SharedObject {
    const void* key;
    std::size_t bytes;
    std::unique_ptr<std::byte[]> memory;
  };

  bool all_agree(const WarpExchange& exchange, unsigned mask);
  unsigned below(unsigned bound);  // the next number of the seed
  void add_fiber();
  void live(Fiber& self);
  void enter(unsigned thread);
  void leave();
  void run_block();
  bool sweep();
  void explain_standstill();
  [[noreturn]] void fault(const std::string& what) const;  // of the thread that runs
  [[noreturn]] void fault_of(unsigned thread, const std::string& what) const;
  void fill_with_noise(std::byte* memory, std::size_t bytes);
  std::string place(unsigned thread) const;

  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<WarpExchange> warps_;
  std::vector<SharedObject> shared_;
  std::unique_ptr<std::byte[]> dynamic_shared_;

  std::string kernel_;
  const Grid* grid_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  unsigned block_ = 0;
  unsigned thread_ = 0;
  unsigned running_ = 0;  // threads of the block that have not ended
  unsigned at_barrier_ = 0;
  std::uint64_t turns_ = 0;
  std::string fault_;
  bool cancelled_ = false;  // the block is lost: its threads end at their next turn
  bool quit_ = false;
  void* outside_fake_stack_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_stack_bytes_ = 0;
};

}  // namespace gleaner::cuda::emulation
