#pragma once
// SQLite behind three small types: a connection with its prepared statements, one use of a statement, a transaction.
// One thread. Errors: a full disk or quota is no_space, damaged bytes are corrupt, a lock held elsewhere is conflict,
// any other I/O error is fatal; each names the file. After no_space the connection goes on working. A flush that fails
// for lack of space is no_space as well, unless deferred writes rested on it: then it is fatal. So is a write to a file
// that was removed or replaced meanwhile: both end when somebody puts things right.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "common/bytes.hpp"
#include "common/error.hpp"
#include "common/ids.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace gleaner {

class Connection;

// One use of a prepared statement: bind, step, read; the destructor hands it back to the connection's cache. Bound text
// and bytes are not copied: they must stay until then. Integers of 64 bits are stored by their bits, NaN as NULL.
class Statement {
 public:
  Statement(Connection& connection, std::string_view sql, sqlite3_stmt* handle)
      : connection_(&connection), sql_(sql), handle_(handle) {}
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  template <class... Args>
  void bind(const Args&... args) {
    int index = 0;
    (bind_one(++index, args), ...);
  }

  Result<bool> step();  // true: a row can be read

  template <class T>
  T get(int column) const;  // bytes stay valid until the next step

 private:
  template <class T>
  void bind_one(int index, const T& value);
  void bind_null(int index);
  void bind_integer(int index, std::int64_t value);
  void bind_real(int index, double value);
  void bind_text(int index, std::string_view value);
  void bind_bytes(int index, ByteView value);
  void note(int code);

  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string_view text(int column) const;
  ByteView bytes(int column) const;

  Connection* connection_;
  std::string_view sql_;
  sqlite3_stmt* handle_;
  int bind_error_ = 0;  // the first one, reported by step()
};

class Connection {
 public:
  enum class Mode { write, read };

  struct Limits {
    std::uint32_t wal_bytes_max = 64U << 20;  // beyond it a commit folds the write-ahead log back
    std::uint32_t busy_ms_max = 5'000;        // patience with a lock held by another process
    std::uint32_t pages_max = 0;              // of the file; 0: as many as the disk holds
    bool outlives_power = true;               // false: a commit is there after kill -9, not after a power cut
  };

  static Result<std::unique_ptr<Connection>> open(const std::string& path, Mode mode, const Limits& limits);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // sql is a literal: its prepared form is kept and found again by its text.
  template <class... Args>
  Result<Statement> query(std::string_view sql, const Args&... args) {
    GLEANER_ASSIGN(Statement statement, prepare(sql));
    statement.bind(args...);
    return statement;
  }
  template <class... Args>
  Status execute(std::string_view sql, const Args&... args) {
    const bool alone = !in_transaction();
    if (alone) GLEANER_TRY(in_place());
    const auto once = [&]() -> Status {
      GLEANER_ASSIGN(Statement statement, query(sql, args...));
      return run_to_end(statement);
    };
    // A transaction that found no space may be over already; what is left of it must not be done alone.
    GLEANER_TRY(alone ? with_room(once) : once());
    fold_large_wal();
    return {};
  }
  // Does the work again when there was no space for it and folding the write-ahead log gave some. Inside a transaction
  // the whole transaction is the work.
  template <class Work>
  Status with_room(const Work& work) {
    Status done = work();
    if (done || done.error().code() != ErrorCode::no_space || !make_room()) return done;
    return work();
  }
  // The first column of the first row, if there is a row.
  template <class T, class... Args>
  Result<std::optional<T>> first(std::string_view sql, const Args&... args) {
    GLEANER_ASSIGN(Statement statement, query(sql, args...));
    GLEANER_ASSIGN(const bool found, statement.step());
    return found ? std::optional<T>(statement.get<T>(0)) : std::nullopt;
  }
  Status script(const std::string& sql);  // several statements, not kept

  std::int64_t changes() const;  // rows touched by the last statement
  bool in_transaction() const;
  Status checkpoint();  // as much as readers allow; never waits for them

  // no_space when the file at path() is no longer the one that is open: what is written would be lost with the process.
  // Every write asks; reading goes on, so that a copy can still be made.
  Status in_place() const;

  // A copy of every page as it is now in a file that must not exist yet, with another application id; on disk at
  // return.
  Status copy_to(const std::string& path, std::uint32_t application_id);

  const std::string& path() const { return path_; }
  Error failure(int code) const;  // right after the call that failed: it reads errno

 private:
  friend class Statement;
  friend class Transaction;
  Connection(std::string path, const Limits& limits) : path_(std::move(path)), limits_(limits) {}

  static int on_wal_commit(void* self, sqlite3* handle, const char* schema, int pages);
  Result<Statement> prepare(std::string_view sql);
  Status run_to_end(Statement& statement);
  void give_back(std::string_view sql, sqlite3_stmt* handle);
  void fold_large_wal();
  bool make_room();

  std::string path_;
  Limits limits_;
  sqlite3* handle_ = nullptr;
  std::unordered_multimap<std::string_view, sqlite3_stmt*> idle_;
  std::uint64_t wal_pages_ = 0;
  bool defers_ = false;        // the open transaction will not wait for the disk
  bool has_deferred_ = false;  // what was committed last did not
};

// Rolled back unless committed. What a deferred one wrote is atomic at once and on disk with the next write
// transaction.
class Transaction {
 public:
  enum class Kind { read, write, deferred_write };
  static Result<Transaction> begin(Connection& connection, Kind kind = Kind::write);
  Transaction(Transaction&& other) noexcept
      : connection_(std::exchange(other.connection_, nullptr)), kind_(other.kind_) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Status commit();

 private:
  Transaction(Connection& connection, Kind kind) : connection_(&connection), kind_(kind) {}
  void end();

  Connection* connection_;
  Kind kind_;
};

// The error of a failed system call: no_space when a disk or a quota is full, otherwise fatal.
Error system_failure(int system_error, const std::string& path, std::string_view what);

// The folder's entry of a new or renamed file, on disk.
Status sync_folder_of(const std::string& path);

template <class T>
void Statement::bind_one(int index, const T& value) {
  if constexpr (std::is_same_v<T, std::nullopt_t>) {
    bind_null(index);
  } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
    bind_integer(index, static_cast<std::int64_t>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    bind_real(index, double{value});
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    bind_text(index, value);
  } else if constexpr (std::is_convertible_v<const T&, ByteView>) {
    bind_bytes(index, value);
  } else if constexpr (requires { value.has_value(); }) {
    if (value) {
      bind_one(index, *value);
    } else {
      bind_null(index);
    }
  } else {
    bind_one(index, value.value);
  }
}

template <class T>
T Statement::get(int column) const {
  if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
    return static_cast<T>(integer(column));
  } else if constexpr (std::is_floating_point_v<T>) {
    return is_null(column) ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(real(column));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return std::string(text(column));
  } else if constexpr (std::is_same_v<T, ByteView>) {
    return bytes(column);
  } else if constexpr (requires { typename T::value_type; }) {
    return is_null(column) ? T() : T(get<typename T::value_type>(column));
  } else {
    return T{get<decltype(T::value)>(column)};
  }
}

}  // namespace gleaner
