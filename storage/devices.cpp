#include <fmt/format.h>

#include <algorithm>

#include "common/clock.hpp"
#include "storage/sqlite_database.hpp"

namespace gleaner {

// A device keeps the day it was first seen and whether it is revoked.
Status SqliteDatabase::upsert_device(const DeviceRow& row) {
  return connection_->execute(
      "INSERT INTO device (name, certificate_serial, first_seen_unix_ms, last_seen_unix_ms, revoked, "
      "uplink_bytes_per_s,"
      " downlink_bytes_per_s, samples_per_s, up_bytes, down_bytes) VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?) "
      "ON CONFLICT (name) DO UPDATE SET certificate_serial = excluded.certificate_serial, "
      "first_seen_unix_ms = iif(first_seen_unix_ms = 0, excluded.first_seen_unix_ms, first_seen_unix_ms), "
      "last_seen_unix_ms = excluded.last_seen_unix_ms, uplink_bytes_per_s = excluded.uplink_bytes_per_s, "
      "downlink_bytes_per_s = excluded.downlink_bytes_per_s, samples_per_s = excluded.samples_per_s, "
      "up_bytes = excluded.up_bytes, down_bytes = excluded.down_bytes",
      row.name, row.certificate_serial, row.first_seen_unix_ms, row.last_seen_unix_ms, row.uplink_bytes_per_s,
      row.downlink_bytes_per_s, row.samples_per_s, row.up_bytes, row.down_bytes);
}

Status SqliteDatabase::allow_device(const DeviceName& name) {
  GLEANER_TRY(connection_->execute("UPDATE device SET revoked = 0 WHERE name = ?", name));
  if (connection_->changes() != 0) return {};
  return fail(ErrorCode::not_found, fmt::format("there is no device named \"{}\"", name.value));
}

Status SqliteDatabase::revoke_device(const DeviceName& name, Unseen unseen) {
  GLEANER_TRY(connection_->execute("UPDATE device SET revoked = 1 WHERE name = ?", name));
  if (connection_->changes() != 0) return {};
  if (unseen == Unseen::refuse) {
    return fail(
        ErrorCode::not_found,
        fmt::format("no device named \"{}\" has ever connected; to revoke one all the same, add --unseen", name.value));
  }
  return connection_->execute(
      "INSERT INTO device (name, certificate_serial, first_seen_unix_ms, last_seen_unix_ms, revoked, "
      "uplink_bytes_per_s,"
      " downlink_bytes_per_s, samples_per_s, up_bytes, down_bytes) VALUES (?, '', 0, 0, 1, 0, 0, 0, 0, 0)",
      name);
}

Result<std::vector<DeviceRow>> SqliteDatabase::devices() {
  GLEANER_ASSIGN(Statement rows,
                 connection_->query("SELECT name, certificate_serial, first_seen_unix_ms, last_seen_unix_ms, revoked, "
                                    "uplink_bytes_per_s, downlink_bytes_per_s, samples_per_s, up_bytes, down_bytes "
                                    "FROM device ORDER BY name"));
  std::vector<DeviceRow> found;
  for (;;) {
    GLEANER_ASSIGN(const bool row, rows.step());
    if (!row) return found;
    found.push_back({.name = rows.get<DeviceName>(0),
                     .certificate_serial = rows.get<std::string>(1),
                     .first_seen_unix_ms = rows.get<std::int64_t>(2),
                     .last_seen_unix_ms = rows.get<std::int64_t>(3),
                     .revoked = rows.get<std::uint32_t>(4) != 0,
                     .uplink_bytes_per_s = rows.get<double>(5),
                     .downlink_bytes_per_s = rows.get<double>(6),
                     .samples_per_s = rows.get<double>(7),
                     .up_bytes = rows.get<std::uint64_t>(8),
                     .down_bytes = rows.get<std::uint64_t>(9)});
  }
}

Status SqliteDatabase::audit(const std::string& actor, const std::string& action, const std::string& detail) {
  return connection_->execute("INSERT INTO audit (wall_unix_ms, actor, action, detail) VALUES (?, ?, ?, ?)",
                              system_clock().wall_unix_ms(), actor, action, detail);
}

// "2026-11-30T12:34:56Z operator-a run.stop demo", oldest first.
Result<std::vector<std::string>> SqliteDatabase::newest_audit(std::uint32_t count) {
  GLEANER_ASSIGN(Statement rows, connection_->query("SELECT wall_unix_ms, actor, action, detail FROM audit "
                                                    "ORDER BY id DESC LIMIT ?",
                                                    count));
  std::vector<std::string> lines;
  for (;;) {
    GLEANER_ASSIGN(const bool row, rows.step());
    if (!row) break;
    lines.push_back(fmt::format("{} {} {} {}", to_iso8601(rows.get<std::int64_t>(0)), rows.get<std::string>(1),
                                rows.get<std::string>(2), rows.get<std::string>(3)));
  }
  std::ranges::reverse(lines);
  return lines;
}

}  // namespace gleaner
