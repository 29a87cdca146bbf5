#pragma once
// Little-endian reading and writing of byte strings, strict: a reader never goes past its end and says so once.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gleaner {

static_assert(std::endian::native == std::endian::little,
              "Gleaner's formats are little-endian; so must the machine be");

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

class ByteWriter {
 public:
  explicit ByteWriter(Bytes& out) : out_(out) {}  // out must outlive the writer

  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put(T value) {
    const auto at = out_.size();
    out_.resize(at + sizeof(T));
    std::memcpy(out_.data() + at, &value, sizeof(T));
  }
  // Unsigned LEB128: seven bits a byte, low first.
  void put_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<std::byte>(value | 0x80));
    out_.push_back(static_cast<std::byte>(value));
  }
  void put_bytes(ByteView bytes) { out_.insert(out_.end(), bytes.begin(), bytes.end()); }
  template <class T>
  void put_array(std::span<const T> values) {
    put_bytes(std::as_bytes(values));
  }

 private:
  Bytes& out_;
};

class ByteReader {
 public:
  explicit ByteReader(ByteView in) : in_(in) {}

  // False once anything was read past the end or malformed; every later read gives zeros.
  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }
  std::size_t remaining() const { return in_.size(); }

  template <class T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    T value{};
    const ByteView bytes = get_bytes(sizeof(T));
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::uint64_t get_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = get<std::uint8_t>();
      if (shift == 63 && byte > 1) break;
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) {
        if (byte == 0 && shift != 0) break;  // one value, one spelling
        return ok_ ? value : 0;
      }
    }
    ok_ = false;
    return 0;
  }
  ByteView get_bytes(std::size_t size) {
    if (!ok_ || size > in_.size()) {
      ok_ = false;
      in_ = {};
      return {};
    }
    const ByteView bytes = in_.first(size);
    in_ = in_.subspan(size);
    return bytes;
  }

 private:
  ByteView in_;
  bool ok_ = true;
};

inline ByteView as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view as_text(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace gleaner
