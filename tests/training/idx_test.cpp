#include "training/idx.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <stdexcept>

namespace gleaner {
namespace {

using Content = std::vector<std::uint8_t>;

void append_u32(Content& out, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<std::uint8_t>(value >> shift));
}

Content header(const std::vector<std::uint32_t>& dims, std::uint8_t type = 8) {
  Content out = {0, 0, type, static_cast<std::uint8_t>(dims.size())};
  for (const std::uint32_t dim : dims) append_u32(out, dim);
  return out;
}

Content idx_of(const std::vector<std::uint32_t>& dims, const Content& values) {
  Content out = header(dims);
  out.insert(out.end(), values.begin(), values.end());
  return out;
}

Content counting(std::size_t size) {
  Content out;
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<std::uint8_t>(i * 7));
  return out;
}

Content gzip_of(const Content& content) {
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("zlib");
  Content in = content;
  Content out(deflateBound(&stream, in.size()) + 64);
  stream.next_in = in.data();
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("zlib");
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

class Idx : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 (std::string("gleaner_idx_") + test->name() + "_" +
                  std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "_" +
                  std::to_string(reinterpret_cast<std::uintptr_t>(this)));
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path write(const std::string& name, const Content& content) const {
    const auto path = directory_ / name;
    std::ofstream file(path, std::ios::binary);
    for (const std::uint8_t byte : content) file.put(static_cast<char>(byte));
    return path;
  }

  // The error's message without the directory.
  std::string message_of(const Error& error) const {
    std::string text = error.message();
    const std::string prefix = directory_.string() + "/";
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) text.erase(at, prefix.size());
    return text;
  }
  std::string refusal(const Content& content, ErrorCode code = ErrorCode::corrupt) const {
    const auto result = read_idx(write("f", content));
    EXPECT_FALSE(result.has_value());
    if (result) return {};
    EXPECT_EQ(result.error().code(), code);
    return message_of(result.error());
  }

  std::filesystem::path directory_;
};

TEST_F(Idx, ReadsPlainAndGzip) {
  const Content values = counting(24);
  for (const Content& content : {idx_of({2, 3, 4}, values), gzip_of(idx_of({2, 3, 4}, values))}) {
    const auto file = read_idx(write("f", content));
    ASSERT_TRUE(file.has_value()) << file.error().message();
    EXPECT_EQ(file->dims, (std::vector<std::uint32_t>{2, 3, 4}));
    EXPECT_EQ(file->values, values);
  }
}

TEST_F(Idx, ReadsMoreThanABlock) {
  const Content values = counting(300'000);
  for (const Content& content : {idx_of({300'000}, values), gzip_of(idx_of({300'000}, values))}) {
    const auto file = read_idx(write("f", content));
    ASSERT_TRUE(file.has_value()) << file.error().message();
    EXPECT_EQ(file->values, values);
  }
}

TEST_F(Idx, ReadsNoValues) {
  EXPECT_TRUE(read_idx(write("f", header({0})))->values.empty());
  EXPECT_TRUE(read_idx(write("f", gzip_of(header({0, 28}))))->values.empty());
}

TEST_F(Idx, EveryTruncationIsRefused) {
  const Content plain = idx_of({2, 3}, counting(6));
  const Content packed = gzip_of(plain);
  for (const Content& whole : {plain, packed}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto result =
          read_idx(write("f", Content(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))));
      ASSERT_FALSE(result.has_value()) << size << " bytes of " << whole.size();
      EXPECT_EQ(result.error().code(), ErrorCode::corrupt);
      EXPECT_EQ(message_of(result.error()).substr(0, 3), "f: ");
    }
  }
}

TEST_F(Idx, EveryFlippedBitOfGzipIsSeenOrHarmless) {
  const Content values = counting(40);
  const Content packed = gzip_of(idx_of({40}, values));
  for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
    Content damaged = packed;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    const auto result = read_idx(write("f", damaged));
    if (result) EXPECT_EQ(result->values, values) << "bit " << bit;  // a time stamp or an operating system
  }
}

TEST_F(Idx, MessagesSayWhatWasExpectedAndFound) {
  EXPECT_EQ(refusal({}), "f: the magic should have 4 bytes, the file ends after 0: it is truncated");
  EXPECT_EQ(refusal({0, 0, 8, 2, 0, 0}), "f: the header should have 8 bytes, the file ends after 2: it is truncated");
  EXPECT_EQ(refusal(idx_of({2, 3}, counting(5))), "f: dimensions 2 x 3 mean 18 bytes with the header, the file has 17");
  EXPECT_EQ(refusal(idx_of({2, 3}, counting(7))), "f: dimensions 2 x 3 mean 18 bytes with the header, the file has 19");
  EXPECT_EQ(refusal({'h', 'e', 'l', 'l', 'o'}),
            "f: expected an IDX file of unsigned bytes (first bytes 00 00 08 and a rank of 1 to 8), found 68 65 6c 6c");
  for (const Content& magic : {Content{0, 0, 9, 1}, Content{0, 1, 8, 1}, Content{0, 0, 8, 0}, Content{0, 0, 8, 9}}) {
    EXPECT_NE(refusal(magic).find("expected an IDX file"), std::string::npos);
  }
}

TEST_F(Idx, DamagedGzipIsNamed) {
  const Content content = idx_of({6}, counting(6));
  Content packed = gzip_of(content);
  Content wrong_sum = packed;
  wrong_sum[wrong_sum.size() - 8] ^= 1;
  EXPECT_EQ(refusal(wrong_sum), "f: the gzip stream is damaged: incorrect data check");
  Content cut = packed;
  cut.resize(cut.size() - 3);
  EXPECT_EQ(refusal(cut), "f: the gzip stream ends too early: the file is truncated");
  Content longer = packed;
  longer.push_back(0);
  EXPECT_EQ(refusal(longer), "f: bytes follow the end of its gzip stream");
  Content twice = packed;
  twice.insert(twice.end(), packed.begin(), packed.end());
  EXPECT_EQ(refusal(twice), "f: bytes follow the end of its gzip stream");
  EXPECT_EQ(refusal(gzip_of(idx_of({5}, counting(6)))), "f: bytes follow the last value that its header announces");
  EXPECT_EQ(refusal(gzip_of(idx_of({7}, counting(6)))),
            "f: the values should have 7 bytes, the file ends after 6: it is truncated");
}

// Checked before memory is taken: under a memory limit or a sanitizer the attempt itself would fail.
TEST_F(Idx, LyingDimensionsTakeNoMemory) {
  EXPECT_EQ(refusal(header({0xffffffffU, 0xffffffffU, 0xffffffffU})),
            "f: dimensions 4294967295 x 4294967295 x 4294967295 mean more than the 1.07 GB that are accepted");
  EXPECT_EQ(refusal(header({65536, 65536, 65536, 65536})),
            "f: dimensions 65536 x 65536 x 65536 x 65536 mean more than the 1.07 GB that are accepted");
  EXPECT_EQ(refusal(header({1U << 30})),
            "f: dimensions 1073741824 mean 1073741832 bytes with the header, the file has 8");
  EXPECT_NE(refusal(gzip_of(header({1U << 30}))).find("the file cannot hold more than"), std::string::npos);
}

TEST_F(Idx, MissingFileAndDirectory) {
  const auto missing = read_idx(directory_ / "nothing");
  EXPECT_EQ(missing.error().code(), ErrorCode::not_found);
  EXPECT_EQ(message_of(missing.error()), "nothing: no such file");
  std::filesystem::create_directory(directory_ / "d");
  EXPECT_EQ(message_of(read_idx(directory_ / "d").error()), "d: not a regular file");
}

TEST_F(Idx, LoadsADirectory) {
  const Content pixels = counting(3 * 2 * 5);
  write("train-images-idx3-ubyte.gz", gzip_of(idx_of({3, 2, 5}, pixels)));
  write("train-labels-idx1-ubyte", idx_of({3}, {1, 0, 4}));
  const auto dataset = load_idx_dataset(directory_, Split::train);
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_EQ(dataset->samples, 3U);
  EXPECT_EQ(dataset->height, 2U);
  EXPECT_EQ(dataset->width, 5U);
  EXPECT_EQ(dataset->channels, 1U);
  EXPECT_EQ(dataset->features, 10U);
  EXPECT_EQ(dataset->classes, 5U);
  EXPECT_EQ(dataset->pixels, pixels);
  EXPECT_EQ(dataset->labels, (Content{1, 0, 4}));
  EXPECT_EQ(dataset->standardisation.mean, measure_standardisation(pixels).mean);

  const auto test = load_idx_dataset(directory_, Split::test);
  EXPECT_EQ(test.error().code(), ErrorCode::not_found);
  EXPECT_NE(test.error().message().find("neither t10k-images-idx3-ubyte nor t10k-images-idx3-ubyte.gz is there"),
            std::string::npos);
}

TEST_F(Idx, DirectoryThatDoesNotFitTogether) {
  const auto refused = [&](const Content& images, const Content& labels, const IdxOptions& options = {}) {
    write("t10k-images-idx3-ubyte", images);
    write("t10k-labels-idx1-ubyte", labels);
    const auto result = load_idx_dataset(directory_, Split::test, options);
    EXPECT_FALSE(result.has_value());
    if (result) return std::string();
    EXPECT_EQ(result.error().code(), ErrorCode::bad_input);
    return message_of(result.error());
  };
  const Content images = idx_of({3, 2, 2}, counting(12));
  EXPECT_EQ(refused(images, idx_of({2}, {1, 0})),
            "t10k-labels-idx1-ubyte: has 2 labels for the 3 images of t10k-images-idx3-ubyte");
  EXPECT_EQ(refused(images, idx_of({3, 1}, {1, 0, 1})), "t10k-labels-idx1-ubyte: expected one dimension, found 3 x 1");
  EXPECT_EQ(refused(idx_of({12}, counting(12)), idx_of({12}, counting(12))),
            "t10k-images-idx3-ubyte: expected images x rows x columns, none of them 0, found 12");
  EXPECT_EQ(refused(header({0, 2, 2}), header({0})),
            "t10k-images-idx3-ubyte: expected images x rows x columns, none of them 0, found 0 x 2 x 2");
  EXPECT_EQ(refused(images, idx_of({3}, {1, 3, 1}), {.standardisation = {}, .classes = 3, .stem = {}}),
            "t10k-labels-idx1-ubyte: has label 3, but there are 3 classes");
}

TEST_F(Idx, AStemIsInFrontOfTheNames) {
  write("emnist-x-train-images-idx3-ubyte", idx_of({1, 2, 2}, counting(4)));
  write("emnist-x-train-labels-idx1-ubyte", idx_of({1}, {1}));
  write("emnist-x-test-images-idx3-ubyte", idx_of({2, 2, 2}, counting(8)));
  write("emnist-x-test-labels-idx1-ubyte", idx_of({2}, {1, 0}));
  const IdxOptions options = {.standardisation = {}, .classes = 0, .stem = "emnist-x-"};
  EXPECT_EQ(load_idx_dataset(directory_, Split::train, options)->samples, 1U);
  EXPECT_EQ(load_idx_dataset(directory_, Split::test, options)->samples, 2U);
}

}  // namespace
}  // namespace gleaner
