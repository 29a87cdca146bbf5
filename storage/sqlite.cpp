#include "storage/sqlite.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/check.hpp"
#include "common/log.hpp"

namespace gleaner {
namespace {

constexpr std::uint64_t kPageBytes = 65'536;
constexpr std::uint64_t kWalFrameBytes = kPageBytes + 24;

// Pragmas of every connection. secure_delete would write zeros over every freed page.
constexpr const char* kCommonPragmas =
    "PRAGMA cache_size = -8192;"
    "PRAGMA foreign_keys = ON;"
    "PRAGMA temp_store = MEMORY;"
    "PRAGMA trusted_schema = OFF;"
    "PRAGMA cell_size_check = ON;";
constexpr const char* kWriterPragmas =
    "PRAGMA page_size = 65536;"
    "PRAGMA synchronous = FULL;"
    "PRAGMA secure_delete = OFF;"
    "PRAGMA journal_size_limit = 67108864;";

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Status sync_path(const std::string& path, int flags) {
  const File file(::open(path.c_str(), flags | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) != 0) return fail(system_failure(errno, path, "cannot be brought to disk"));
  return {};
}

// Bytes that its file system has left for us.
std::uint64_t room_at(const std::string& path) {
  struct statvfs status{};
  if (::statvfs(path.c_str(), &status) != 0) return std::numeric_limits<std::uint64_t>::max();
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

bool means_no_space(int system_error) { return system_error == ENOSPC || system_error == EDQUOT; }

// A failed flush may lose whatever was written since the last good one. A failed transaction is written again from its
// start, and so is a failed fold; but deferred writes are not, and only a new start finds out which of them are there.
bool is_out_of_space(int code, int system_error, bool has_deferred) {
  if (code == SQLITE_FULL) return true;
  if (code == SQLITE_IOERR_FSYNC && has_deferred) return false;
  const int kind = code & 0xff;
  return (kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN) && means_no_space(system_error);
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : connection_(other.connection_),
      sql_(other.sql_),
      handle_(std::exchange(other.handle_, nullptr)),
      bind_error_(other.bind_error_) {}

Statement::~Statement() {
  if (handle_ != nullptr) connection_->give_back(sql_, handle_);
}

void Statement::note(int code) {
  if (code != SQLITE_OK && bind_error_ == SQLITE_OK) bind_error_ = code;
}

void Statement::bind_null(int index) { note(sqlite3_bind_null(handle_, index)); }
void Statement::bind_integer(int index, std::int64_t value) { note(sqlite3_bind_int64(handle_, index, value)); }
void Statement::bind_real(int index, double value) { note(sqlite3_bind_double(handle_, index, value)); }
void Statement::bind_text(int index, std::string_view value) {
  const char* start = value.data() != nullptr ? value.data() : "";  // no bytes are still a text, not a NULL
  note(sqlite3_bind_text64(handle_, index, start, value.size(), SQLITE_STATIC, SQLITE_UTF8));
}
void Statement::bind_bytes(int index, ByteView value) {
  const void* start = value.data() != nullptr ? static_cast<const void*>(value.data()) : "";
  note(sqlite3_bind_blob64(handle_, index, start, value.size(), SQLITE_STATIC));
}

bool Statement::is_null(int column) const { return sqlite3_column_type(handle_, column) == SQLITE_NULL; }
std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(handle_, column); }
double Statement::real(int column) const { return sqlite3_column_double(handle_, column); }
std::string_view Statement::text(int column) const {
  const auto* start = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (start == nullptr) return {};
  return {start, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}
ByteView Statement::bytes(int column) const {
  const auto* start = static_cast<const std::byte*>(sqlite3_column_blob(handle_, column));
  return {start, start == nullptr ? 0 : static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

Result<bool> Statement::step() {
  if (bind_error_ != SQLITE_OK) return fail(connection_->failure(bind_error_));
  errno = 0;
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return fail(connection_->failure(code));
}

Result<std::unique_ptr<Connection>> Connection::open(const std::string& path, Mode mode, const Limits& limits) {
  std::unique_ptr<Connection> connection(new Connection(path, limits));
  const int access = mode == Mode::write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  errno = 0;
  const int code = sqlite3_open_v2(path.c_str(), &connection->handle_, access | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) return fail(connection->failure(code));
  sqlite3_extended_result_codes(connection->handle_, 1);
  sqlite3_busy_timeout(connection->handle_, static_cast<int>(limits.busy_ms_max));
  GLEANER_TRY(connection->script(kCommonPragmas));
  if (mode == Mode::read) {
    // Two connections that fold the log back at once can destroy pages (SQLite before 3.51.3): a reader never does.
    sqlite3_db_config(connection->handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return connection;
  }
  GLEANER_TRY(connection->script(kWriterPragmas));
  if (!limits.outlives_power) GLEANER_TRY(connection->script("PRAGMA synchronous = OFF"));
  GLEANER_ASSIGN(const auto journal, connection->first<std::string>("PRAGMA journal_mode = WAL"));
  if (journal != "wal") {
    return fail(ErrorCode::fatal,
                fmt::format("{}: this file system cannot hold a write-ahead log (SQLite chose \"{}\"): put the "
                            "database on a local disk",
                            path, journal.value_or("")));
  }
  sqlite3_wal_autocheckpoint(connection->handle_, 0);
  sqlite3_wal_hook(connection->handle_, &Connection::on_wal_commit, connection.get());
  if (limits.pages_max != 0)
    GLEANER_TRY(connection->script(fmt::format("PRAGMA max_page_count = {}", limits.pages_max)));
  return connection;
}

Connection::~Connection() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  if (sqlite3_close(handle_) != SQLITE_OK) log_error("{}: closed while a statement was in use", path_);
}

Result<Statement> Connection::prepare(std::string_view sql) {
  if (const auto found = idle_.find(sql); found != idle_.end()) {
    sqlite3_stmt* handle = found->second;
    idle_.erase(found);
    return Statement(*this, sql, handle);
  }
  sqlite3_stmt* handle = nullptr;
  errno = 0;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                      &handle, nullptr);
  if (code != SQLITE_OK) return fail(failure(code));
  return Statement(*this, sql, handle);
}

void Connection::give_back(std::string_view sql, sqlite3_stmt* handle) {
  sqlite3_reset(handle);
  sqlite3_clear_bindings(handle);
  idle_.emplace(sql, handle);
}

Status Connection::run_to_end(Statement& statement) {
  for (;;) {
    GLEANER_ASSIGN(const bool row, statement.step());
    if (!row) return {};
  }
}

Status Connection::script(const std::string& sql) {
  errno = 0;
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return fail(failure(code));
  return {};
}

std::int64_t Connection::changes() const { return sqlite3_changes64(handle_); }
bool Connection::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

int Connection::on_wal_commit(void* self, sqlite3* /*handle*/, const char* /*schema*/, int pages) {
  auto* connection = static_cast<Connection*>(self);
  connection->wal_pages_ = static_cast<std::uint64_t>(pages);
  connection->has_deferred_ = connection->defers_;
  return SQLITE_OK;
}

Status Connection::checkpoint() {
  int pages = 0;
  int folded = 0;
  errno = 0;
  const int code = sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_PASSIVE, &pages, &folded);
  if (code != SQLITE_OK) return fail(failure(code));
  if (pages == folded) wal_pages_ = 0;
  return {};
}

Status Connection::in_place() const {
  int moved = 0;
  if (sqlite3_file_control(handle_, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK || moved == 0) return {};
  return fail(ErrorCode::no_space,
              fmt::format("{}: was removed, moved or replaced while it is served, and nothing can be stored; put the "
                          "file back, or save what is known with `gleaner db backup FILE`, stop, and restore that",
                          path_));
}

// The transaction before it is on disk whatever happens here, so a failure is only reported; the next commit tries
// again.
void Connection::fold_large_wal() {
  // Folding takes room too, at most as much as the log has: where there is less it is done while there is enough.
  const std::uint64_t wal_bytes = wal_pages_ * kWalFrameBytes;
  if (in_transaction() || wal_bytes == 0) return;
  if (wal_bytes <= limits_.wal_bytes_max && 2 * wal_bytes <= room_at(path_)) return;
  if (const Status status = checkpoint(); !status) {
    log_warn("the write-ahead log grows, because folding it back failed: {}", status.error().message());
  }
}

// A log that is folded back is written from its start again, in room that it has already. False when nothing was
// gained.
bool Connection::make_room() {
  if (in_transaction() || wal_pages_ == 0) return false;
  const std::uint64_t pages = wal_pages_;
  if (!checkpoint() || wal_pages_ != 0) return false;
  log_info("{}: no space was left: {} pages of the write-ahead log are folded back, and it is tried again", path_,
           pages);
  return true;
}

Status Connection::copy_to(const std::string& path, std::uint32_t application_id) {
  sqlite3* raw = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  errno = 0;
  const int opened = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  std::unique_ptr<Connection> copy(new Connection(path, limits_));
  copy->handle_ = raw;
  if (opened != SQLITE_OK) return fail(copy->failure(opened));
  sqlite3_extended_result_codes(raw, 1);
  GLEANER_TRY(copy->script("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;"));
  sqlite3_backup* backup = sqlite3_backup_init(raw, "main", handle_, "main");
  if (backup == nullptr) return fail(copy->failure(sqlite3_extended_errcode(raw)));
  errno = 0;
  sqlite3_backup_step(backup, -1);
  const int copied = sqlite3_backup_finish(backup);
  if (copied != SQLITE_OK) return fail(copy->failure(copied));
  // The pages say WAL; a copy is one file that can be read from anywhere.
  GLEANER_TRY(copy->script(fmt::format("PRAGMA journal_mode = DELETE; PRAGMA application_id = {};", application_id)));
  copy.reset();
  GLEANER_TRY(sync_path(path, O_RDWR));
  return sync_folder_of(path);
}

// SQLite itself remembers the system's error of a failed statement, but not that of a failed COMMIT.
Error Connection::failure(int code) const {
  const int system_error = errno;
  const std::string detail =
      handle_ != nullptr && sqlite3_extended_errcode(handle_) == code ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  // Of the others errno is what some harmless call left, like a look for a file that need not exist.
  const int family = code & 0xff;
  const bool is_of_system = family == SQLITE_IOERR || family == SQLITE_CANTOPEN || family == SQLITE_FULL;
  const auto error = [&](ErrorCode kind, std::string_view meaning) {
    const std::string system =
        system_error != 0 && is_of_system ? fmt::format(", {}", std::strerror(system_error)) : "";
    return Error(kind, fmt::format("{}: {} ({}{})", path_, meaning, detail, system));
  };
  if (is_out_of_space(code, system_error, has_deferred_)) {
    return error(ErrorCode::no_space, "no space is left, nothing was changed; free some on its disk");
  }
  switch (family) {
    case SQLITE_CORRUPT: return error(ErrorCode::corrupt, "the database is damaged; restore a backup");
    case SQLITE_NOTADB: return error(ErrorCode::corrupt, "is not a database; restore a backup or name another file");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return error(ErrorCode::conflict, "another process holds it; end that process");
    case SQLITE_READONLY: return error(ErrorCode::conflict, "cannot be written from here");
    case SQLITE_CONSTRAINT: return error(ErrorCode::conflict, "the row contradicts what is stored");
    case SQLITE_TOOBIG: return error(ErrorCode::bad_input, "the value is too large for a row");
    case SQLITE_CANTOPEN:
      return error(ErrorCode::fatal, "cannot be opened; check that its folder is there and writable");
    case SQLITE_IOERR:
      if (system_error == EFBIG) {
        return error(ErrorCode::fatal,
                     "the file may not grow further; raise the limit of this process (ulimit -f) or of its file "
                     "system");
      }
      return error(ErrorCode::fatal, "reading or writing failed; check the disk");
    default: return error(ErrorCode::fatal, "SQLite failed");
  }
}

Result<Transaction> Transaction::begin(Connection& connection, Kind kind) {
  GLEANER_CHECK(!connection.in_transaction());
  if (kind == Kind::deferred_write && !connection.limits_.outlives_power) kind = Kind::write;
  if (kind != Kind::read) GLEANER_TRY(connection.in_place());
  // Not as a kept statement: SQLite takes this setting over when the statement is prepared.
  if (kind == Kind::deferred_write) GLEANER_TRY(connection.script("PRAGMA synchronous = NORMAL"));
  Transaction transaction(connection, kind);
  connection.defers_ = kind == Kind::deferred_write;
  GLEANER_ASSIGN(Statement statement, connection.query(kind == Kind::read ? "BEGIN" : "BEGIN IMMEDIATE"));
  GLEANER_TRY(connection.run_to_end(statement));
  return transaction;
}

Transaction::~Transaction() {
  if (connection_ == nullptr) return;
  if (connection_->in_transaction()) {  // SQLite ends some failed ones itself
    if (const Status status = connection_->execute("ROLLBACK"); !status) log_error("{}", status.error().message());
  }
  end();
}

Status Transaction::commit() {
  GLEANER_TRY(connection_->execute("COMMIT"));
  end();
  return {};
}

void Transaction::end() {
  // Every later commit rests on it.
  if (kind_ == Kind::deferred_write) GLEANER_CHECK(connection_->script("PRAGMA synchronous = FULL").has_value());
  connection_->defers_ = false;
  connection_ = nullptr;
}

Error system_failure(int system_error, const std::string& path, std::string_view what) {
  return {means_no_space(system_error) ? ErrorCode::no_space : ErrorCode::fatal,
          fmt::format("{}: {}: {}", path, what, std::strerror(system_error))};
}

Status sync_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return sync_path(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY);
}

}  // namespace gleaner
