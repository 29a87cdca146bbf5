#include "aggregation/integer_codec.hpp"

#include <bit>

#include "common/check.hpp"

namespace gleaner {
namespace {

constexpr std::uint8_t kSparse = 0;
constexpr std::uint8_t kDense = 1;

constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t coded) {
  return static_cast<std::int64_t>((coded >> 1) ^ (std::uint64_t{0} - (coded & 1)));
}

constexpr std::size_t varint_bytes(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

std::byte* write_varint(std::byte* at, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = static_cast<std::byte>(value | 0x80);
  *at++ = static_cast<std::byte>(value);
  return at;
}

struct Form {
  std::uint8_t form = kSparse;
  std::uint8_t shift = 0;
  std::uint64_t count = 0;
  std::size_t bytes = 0;  // after form and shift
};

Form measure(std::span<const std::int64_t> values) {
  std::uint64_t bits = 0;
  for (const std::int64_t value : values) bits |= static_cast<std::uint64_t>(value);
  Form form;
  form.shift = bits == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(std::countr_zero(bits));
  std::size_t value_bytes = 0;
  std::size_t gap_bytes = 0;
  std::uint64_t gap = 0;
  for (const std::int64_t value : values) {
    if (value == 0) {
      ++gap;
      continue;
    }
    value_bytes += varint_bytes(zigzag(value >> form.shift));
    gap_bytes += varint_bytes(gap);
    gap = 0;
    ++form.count;
  }
  const std::size_t sparse = varint_bytes(form.count) + gap_bytes + value_bytes;
  const std::size_t dense = value_bytes + (values.size() - static_cast<std::size_t>(form.count));
  form.form = dense < sparse ? kDense : kSparse;
  form.bytes = dense < sparse ? dense : sparse;
  return form;
}

std::unexpected<Error> corrupt(const char* what) { return fail(ErrorCode::corrupt, what); }

Status get_value(ByteReader& in, const Form& form, std::uint64_t bound, std::int64_t& value) {
  const std::int64_t coded = unzigzag(in.get_varint());
  const std::int64_t limit = static_cast<std::int64_t>(bound >> form.shift);
  if (!in.ok()) return corrupt("the integers are cut off or not minimal");
  if (coded > limit || coded < -limit) return corrupt("an integer is beyond what the weights allow");
  value = static_cast<std::int64_t>(static_cast<std::uint64_t>(coded) << form.shift);
  return {};
}

Status get_sparse(ByteReader& in, const Form& form, std::uint64_t bound, std::span<std::int64_t> values) {
  const std::uint64_t count = in.get_varint();
  if (!in.ok() || count > values.size()) return corrupt("more integers than the dimension");
  std::uint64_t index = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t gap = in.get_varint();
    if (gap >= values.size() - index) return corrupt("an integer lies beyond the dimension");
    index += gap;
    GLEANER_TRY(get_value(in, form, bound, values[index]));
    ++index;
  }
  return {};
}

}  // namespace

void put_integers(Bytes& out, std::span<const std::int64_t> values, std::size_t bytes_after) {
  const Form form = measure(values);
  const std::size_t begin = out.size();
  out.reserve(begin + 2 + form.bytes + bytes_after);
  out.resize(begin + 2 + form.bytes);
  std::byte* at = out.data() + begin;
  *at++ = static_cast<std::byte>(form.form);
  *at++ = static_cast<std::byte>(form.shift);
  if (form.form == kDense) {
    for (const std::int64_t value : values) at = write_varint(at, zigzag(value >> form.shift));
  } else {
    at = write_varint(at, form.count);
    std::uint64_t gap = 0;
    for (const std::int64_t value : values) {
      if (value == 0) {
        ++gap;
        continue;
      }
      at = write_varint(at, gap);
      at = write_varint(at, zigzag(value >> form.shift));
      gap = 0;
    }
  }
  GLEANER_CHECK(at == out.data() + out.size());
}

Status get_integers(ByteReader& in, std::span<std::int64_t> values, std::uint64_t bound) {
  GLEANER_CHECK(bound <= std::uint64_t{1} << 62);
  Form form;
  form.form = in.get<std::uint8_t>();
  form.shift = in.get<std::uint8_t>();
  if (!in.ok() || form.form > kDense || form.shift > 62) return corrupt("the integers have an unknown form");
  const std::size_t before = in.remaining();
  if (form.form == kSparse) {
    GLEANER_TRY(get_sparse(in, form, bound, values));
  } else {
    // A varint is at least one byte: nothing is read in vain when there are too few.
    if (before < values.size()) return corrupt("the integers are cut off or not minimal");
    for (std::int64_t& value : values) GLEANER_TRY(get_value(in, form, bound, value));
  }
  const Form expected = measure(values);
  if (expected.form != form.form || expected.shift != form.shift || expected.bytes != before - in.remaining()) {
    return corrupt("the integers are not in their shortest form");
  }
  return {};
}

}  // namespace gleaner
