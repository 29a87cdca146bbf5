#include "kernels/cuda/emulation/machine.hpp"

#include <fmt/format.h>

#include <bit>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <numeric>
#include <utility>

#include "common/check.hpp"
#include "common/hash.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GLEANER_FIBERS_UNDER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#endif

namespace gleaner::cuda::emulation {
namespace {

thread_local Machine* running_machine = nullptr;

struct KernelFault {
  std::string what;
};
struct Cancelled {};

constexpr std::size_t kStackBytes = 128 * 1024;
constexpr std::uint64_t kTurnsMax = 1ULL << 30;  // of one launch: a loop that waits for another block never ends

void announce_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* bottom,
                     [[maybe_unused]] std::size_t bytes) {
#ifdef GLEANER_FIBERS_UNDER_ASAN
  __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
#endif
}

void switched([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** bottom,
              [[maybe_unused]] std::size_t* bytes) {
#ifdef GLEANER_FIBERS_UNDER_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, bottom, bytes);
#endif
}

bool same(const std::source_location& a, const std::source_location& b) {
  if (a.line() != b.line() || a.column() != b.column()) return false;
  return a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0;
}

std::string text(const std::source_location& where) { return fmt::format("{}:{}", where.file_name(), where.line()); }

}  // namespace

struct Machine::Stack {
  Stack() : context(allocator.allocate()) {}
  ~Stack() { allocator.deallocate(context); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  boost::context::protected_fixedsize_stack allocator{kStackBytes};
  boost::context::stack_context context;
  void* fake = nullptr;
};

namespace {

// The memory belongs to the Stack, not to the fiber.
struct Borrowed {
  void deallocate(boost::context::stack_context&) noexcept {}
};

}  // namespace

Machine::Machine(std::uint64_t seed) : seed_(seed) {}

// Drawn at every atomic: cheap, and even enough for an order.
unsigned Machine::below(unsigned bound) {
  const std::uint64_t bits = mix64(mix64(seed_) + ++drawn_) >> 32U;
  return static_cast<unsigned>((bits * bound) >> 32U);
}

Machine::~Machine() {
  quit_ = true;
  for (unsigned i = 0; i < fibers_.size(); ++i) enter(i);
}

Machine& Machine::current() {
  GLEANER_CHECK(running_machine != nullptr);
  return *running_machine;
}

// Stacks of one size begin at the same place of a page; tops that differ keep them from sharing cache sets.
void Machine::add_fiber() {
  auto fiber = std::make_unique<Fiber>();
  Fiber& self = *fiber;
  self.stack = std::make_unique<Stack>();
  auto& context = self.stack->context;
  const std::size_t offset = fibers_.size() * 7 % 61 * 64;
  const boost::context::preallocated memory(static_cast<std::byte*>(context.sp) - offset, context.size - offset,
                                            context);
  self.inside =
      boost::context::fiber(std::allocator_arg, memory, Borrowed{}, [this, &self](boost::context::fiber from) {
        switched(nullptr, &outside_stack_, &outside_stack_bytes_);
        self.outside = std::move(from);
        live(self);
        announce_switch(nullptr, outside_stack_, outside_stack_bytes_);
        return std::move(self.outside);
      });
  fibers_.push_back(std::move(fiber));
}

// A fiber lives as long as the machine, and is one thread of block after block.
void Machine::live(Fiber& self) {
  while (!quit_) {
    try {
      if (!cancelled_) (*body_)();
    } catch (const KernelFault& fault) {
      if (fault_.empty()) fault_ = fault.what;
    } catch (const Cancelled&) {
      // Whoever cancelled has said why.
    }
    self.waits = Waits::for_work;
    warps_[thread_ / kWarpSize].alive &= ~(1U << thread_ % kWarpSize);
    --running_;
    leave();
  }
}

void Machine::enter(unsigned thread) {
  Fiber& fiber = *fibers_[thread];
  if (!fiber.inside) return;
  thread_ = thread;
  const auto& context = fiber.stack->context;
  announce_switch(&outside_fake_stack_, static_cast<std::byte*>(context.sp) - context.size, context.size);
  fiber.inside = std::move(fiber.inside).resume();
  switched(outside_fake_stack_, nullptr, nullptr);
}

void Machine::leave() {
  Fiber& self = *fibers_[thread_];
  announce_switch(&self.stack->fake, outside_stack_, outside_stack_bytes_);
  self.outside = std::move(self.outside).resume();
  switched(self.stack->fake, &outside_stack_, &outside_stack_bytes_);
}

Status Machine::run(std::string_view kernel, const Grid& grid, const std::function<void()>& body) {
  GLEANER_CHECK(running_machine == nullptr);  // a kernel launches no kernel
  kernel_ = kernel;
  if (grid.blocks == 0 || grid.threads == 0 || grid.threads > 1024) {
    return fail(ErrorCode::fatal, fmt::format("kernel {}: a grid of {} blocks of {} threads; at least 1 block of 1 to "
                                              "1024 threads",
                                              kernel, grid.blocks, grid.threads));
  }
  running_machine = this;
  grid_ = &grid;
  body_ = &body;
  turns_ = 0;
  fault_.clear();
  while (fibers_.size() < grid.threads) add_fiber();
  warps_.resize((grid.threads + kWarpSize - 1) / kWarpSize);
  dynamic_shared_ = std::make_unique_for_overwrite<std::byte[]>(grid.dynamic_shared_bytes);

  std::vector<unsigned> order(grid.blocks);
  std::iota(order.begin(), order.end(), 0U);
  if (seed_ != 0) {
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[below(static_cast<unsigned>(i))]);
    }
  }
  for (const unsigned block : order) {
    block_ = block;
    run_block();
    if (!fault_.empty()) break;
  }
  running_machine = nullptr;
  shared_.clear();
  if (!fault_.empty()) return fail(ErrorCode::fatal, fault_);
  return {};
}

void Machine::run_block() {
  for (SharedObject& object : shared_) fill_with_noise(object.memory.get(), object.bytes);
  fill_with_noise(dynamic_shared_.get(), grid_->dynamic_shared_bytes);
  running_ = grid_->threads;
  at_barrier_ = 0;
  cancelled_ = false;
  for (WarpExchange& warp : warps_) warp.waiting = warp.alive = 0;
  for (unsigned i = 0; i < grid_->threads; ++i) {
    fibers_[i]->waits = Waits::for_turn;
    warps_[i / kWarpSize].alive |= 1U << i % kWarpSize;
  }
  while (running_ > 0) {
    const bool moved = sweep();
    if (!moved && fault_.empty()) explain_standstill();
    if (turns_ > kTurnsMax && fault_.empty())
      fault_ = fmt::format("kernel {}: block {} comes to no end", kernel_, block_);
    if (!fault_.empty() && running_ > 0) {
      cancelled_ = true;
      for (unsigned i = 0; i < grid_->threads; ++i) {
        if (fibers_[i]->waits != Waits::for_work) enter(i);
      }
    }
  }
}

// One turn for every thread that can go on, in an order of the seed: i -> a * i + b modulo a power of two.
bool Machine::sweep() {
  const unsigned threads = grid_->threads;
  const unsigned span = std::bit_ceil(threads);
  unsigned factor = 1;
  unsigned shift = 0;
  if (seed_ != 0) {
    factor = 2 * below(span) + 1;
    shift = below(span);
  }
  bool moved = false;
  for (unsigned i = 0; i < span; ++i) {
    const unsigned thread = (factor * i + shift) & (span - 1);
    if (thread >= threads || fibers_[thread]->waits != Waits::for_turn) continue;
    ++turns_;
    moved = true;
    enter(thread);
    if (!fault_.empty()) return true;
  }
  return moved;
}

void Machine::sync_block(const std::source_location& where) {
  Fiber& self = *fibers_[thread_];
  self.where = where;
  if (++at_barrier_ < running_) {
    self.waits = Waits::for_block;
    leave();
    if (cancelled_) throw Cancelled{};
    return;
  }
  // The last one looks whether all came to one place.
  for (unsigned i = 0; i < grid_->threads; ++i) {
    const Fiber& other = *fibers_[i];
    if (i != thread_ && other.waits != Waits::for_block) {
      fault_of(i,
               fmt::format("has ended without the barrier at {}, where others wait: divergent barrier", text(where)));
    }
    if (!same(other.where, where)) {
      fault_of(i, fmt::format("waits at the barrier at {}, thread {} at {}: divergent barrier", text(other.where),
                              thread_, text(where)));
    }
  }
  at_barrier_ = 0;
  for (unsigned i = 0; i < grid_->threads; ++i) fibers_[i]->waits = Waits::for_turn;
}

// Every lane of the mask waits: in this operation, or in one without this lane, before it comes here.
bool Machine::all_agree(const WarpExchange& exchange, unsigned mask) {
  const Fiber& self = *fibers_[thread_];
  const unsigned lane = thread_ % kWarpSize;
  for (unsigned lanes = mask & exchange.waiting & ~(1U << lane); lanes != 0; lanes &= lanes - 1) {
    const auto other = static_cast<unsigned>(std::countr_zero(lanes));
    const Fiber& peer = *fibers_[thread_ - lane + other];
    if ((peer.mask >> lane & 1U) == 0) return false;
    if (peer.mask != mask || peer.operation != self.operation || !same(peer.where, self.where)) {
      fault(
          fmt::format("is in the warp operation at {} with mask {:#010x}, lane {} in the one at {} with mask {:#010x}",
                      text(self.where), mask, other, text(peer.where), peer.mask));
    }
  }
  return true;
}

std::uint64_t Machine::meet(unsigned mask, Evaluate evaluate, std::uint64_t value, unsigned argument,
                            const std::source_location& where) {
  const unsigned lane = thread_ % kWarpSize;
  const unsigned first = thread_ - lane;
  WarpExchange& exchange = warps_[thread_ / kWarpSize];
  if ((mask >> lane & 1U) == 0) {
    fault(fmt::format("is lane {}, which is not in the mask {:#010x} of its operation at {}", lane, mask, text(where)));
  }
  Fiber& self = *fibers_[thread_];
  exchange.value[lane] = value;
  exchange.argument[lane] = argument;
  self.mask = mask;
  self.operation = evaluate;
  self.where = where;
  if ((exchange.alive & mask) != mask) {
    fault(fmt::format("waits in the warp operation at {} for lane {}, which has ended or never was", text(where),
                      std::countr_zero(mask & ~exchange.alive)));
  }
  exchange.waiting |= 1U << lane;
  if ((exchange.waiting & mask) == mask && all_agree(exchange, mask)) {
    evaluate(exchange, mask);
    exchange.waiting &= ~mask;
    for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
      fibers_[first + static_cast<unsigned>(std::countr_zero(lanes))]->waits = Waits::for_turn;
    }
  } else {
    self.waits = Waits::for_warp;
    leave();
    if (cancelled_) throw Cancelled{};
  }
  return exchange.result[lane];
}

void* Machine::shared(const void* key, std::size_t bytes) {
  for (const SharedObject& object : shared_) {
    if (object.key == key) return object.memory.get();
  }
  shared_.push_back({key, bytes, std::make_unique_for_overwrite<std::byte[]>(bytes)});
  fill_with_noise(shared_.back().memory.get(), bytes);
  return shared_.back().memory.get();
}

void Machine::before_atomic() {
  if (seed_ == 0 || below(16) != 0) return;
  leave();
  if (cancelled_) throw Cancelled{};
}

void Machine::fault(const std::string& what) const { fault_of(thread_, what); }

void Machine::fault_in_operation(const std::string& what) const {
  fault(fmt::format("{} at {}", what, text(fibers_[thread_]->where)));
}

void Machine::fault_of(unsigned thread, const std::string& what) const {
  throw KernelFault{fmt::format("kernel {}: {} {}", kernel_, place(thread), what)};
}

std::string Machine::place(unsigned thread) const { return fmt::format("block {}, thread {}", block_, thread); }

void Machine::explain_standstill() {
  for (unsigned i = 0; i < grid_->threads; ++i) {
    const Fiber& fiber = *fibers_[i];
    if (fiber.waits != Waits::for_warp && fiber.waits != Waits::for_block) continue;
    const bool warp = fiber.waits == Waits::for_warp;
    fault_ = fmt::format("kernel {}: {} waits at the {} at {}, which {} threads of the block never reach: divergent {}",
                         kernel_, place(i), warp ? "warp operation" : "barrier", text(fiber.where),
                         warp ? "some" : fmt::to_string(grid_->threads - at_barrier_), warp ? "warp" : "barrier");
    return;
  }
}

// A pattern that is neither zero, nor a small number, nor an ordinary float.
void Machine::fill_with_noise(std::byte* memory, std::size_t bytes) {
  const auto noise = static_cast<int>(0x81U | (below(64) << 1U));
  if (bytes > 0) std::memset(memory, noise, bytes);
}

}  // namespace gleaner::cuda::emulation
