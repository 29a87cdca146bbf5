#pragma once
// Errors as values. A code says what the caller can do about it; the message says what happened, where, and what would
// help, in one line for a person. Exceptions are left to start-up and std::bad_alloc.

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace gleaner {

enum class ErrorCode {
  bad_input,   // the user's file or argument is wrong: say so and end (exit code 2)
  peer_fault,  // bytes or behaviour of the far side are wrong: refuse them, keep serving the others
  retry,       // the far side or the network is not there now: try again later, slowly
  no_space,    // nothing can be stored now (a full disk): suspend, keep everything in memory, try again
  corrupt,     // stored bytes fail their check: stop and say which file
  conflict,    // somebody else holds it (lock, name): stop
  not_found,   // no such name, file or row
  fatal,       // the own machine failed (I/O error, out of descriptors): end and recover
};

std::string_view to_string(ErrorCode code);

class [[nodiscard]] Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error with what was being done in front: "while reading a.toml: no such file".
  Error within(std::string_view context) const { return {code_, std::string(context) + ": " + message_}; }

 private:
  ErrorCode code_;
  std::string message_;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> fail(ErrorCode code, std::string message) {
  return std::unexpected<Error>(Error(code, std::move(message)));
}
inline std::unexpected<Error> fail(Error error) { return std::unexpected<Error>(std::move(error)); }

}  // namespace gleaner

#define GLEANER_CONCAT_(a, b) a##b
#define GLEANER_CONCAT(a, b) GLEANER_CONCAT_(a, b)

// GLEANER_TRY(expr): returns the error of a Status or Result from the enclosing function.
#define GLEANER_TRY(expr)                                             \
  do {                                                                \
    if (auto gleaner_status_ = (expr); !gleaner_status_) [[unlikely]] \
      return ::gleaner::fail(std::move(gleaner_status_).error());     \
  } while (false)

// GLEANER_ASSIGN(auto x, expr): x is the value, or the enclosing function returns the error.
#define GLEANER_ASSIGN(target, expr) GLEANER_ASSIGN_(GLEANER_CONCAT(gleaner_result_, __LINE__), target, expr)
#define GLEANER_ASSIGN_(name, target, expr)          \
  auto name = (expr);                                \
  if (!name) [[unlikely]]                            \
    return ::gleaner::fail(std::move(name).error()); \
  target = std::move(*name)
