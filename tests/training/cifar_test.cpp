#include "training/cifar.hpp"

#include <gtest/gtest.h>

#include "tests/training/scratch_folder.hpp"

namespace gleaner {
namespace {

constexpr Standardisation kPlain = {0.0, 1.0};
constexpr std::size_t kPlane = 1024;

// Red counts up, green down, blue is the record's number.
std::string record(std::string labels, int number) {
  std::string text = std::move(labels);
  for (std::size_t i = 0; i < kPlane; ++i) text.push_back(static_cast<char>(i % 256));
  for (std::size_t i = 0; i < kPlane; ++i) text.push_back(static_cast<char>(255 - i % 256));
  text.append(kPlane, static_cast<char>(number));
  return text;
}
std::string label(int value) { return {static_cast<char>(value)}; }
std::string labels(int coarse, int fine) { return {static_cast<char>(coarse), static_cast<char>(fine)}; }

class Cifar : public ::testing::Test {
 protected:
  auto load10(Split split) const { return load_cifar(folder_.path(), CifarKind::cifar10, split, kPlain); }
  auto load100(Split split) const { return load_cifar(folder_.path(), CifarKind::cifar100, split, kPlain); }
  testing::ScratchFolder folder_;
};

TEST_F(Cifar, ReadsFiveBatchesInOrderWithChannelsTogether) {
  for (int batch = 1; batch <= 5; ++batch) {
    folder_.write("data_batch_" + std::to_string(batch) + ".bin", record(label(batch), batch) + record(label(9), 50));
  }
  const auto dataset = load10(Split::train);
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_EQ(dataset->samples, 10U);
  EXPECT_EQ(dataset->features, 3072U);
  EXPECT_EQ(dataset->classes, 10U);
  EXPECT_EQ(dataset->height, 32U);
  EXPECT_EQ(dataset->width, 32U);
  EXPECT_EQ(dataset->channels, 3U);
  EXPECT_EQ(dataset->labels, (std::vector<std::uint8_t>{1, 9, 2, 9, 3, 9, 4, 9, 5, 9}));
  const auto pixels = dataset->pixels_of(4);
  for (std::size_t i = 0; i < kPlane; ++i) {
    ASSERT_EQ(pixels[3 * i], i % 256);
    ASSERT_EQ(pixels[3 * i + 1], 255 - i % 256);
    ASSERT_EQ(pixels[3 * i + 2], 3);
  }
  EXPECT_TRUE(dataset->users.empty());
}

TEST_F(Cifar, HundredHasTwoLabelsOfWhichTheFineCounts) {
  folder_.write("test.bin", record(labels(19, 99), 1) + record(labels(0, 42), 2));
  const auto dataset = load100(Split::test);
  ASSERT_TRUE(dataset.has_value()) << dataset.error().message();
  EXPECT_EQ(dataset->classes, 100U);
  EXPECT_EQ(dataset->labels, (std::vector<std::uint8_t>{99, 42}));
  EXPECT_EQ(dataset->pixels_of(1)[2], 2);
  EXPECT_EQ(folder_.message_of(load100(Split::train), ErrorCode::not_found).find("train.bin.gz is there"),
            folder_.message_of(load100(Split::train), ErrorCode::not_found).size() - 21);
}

TEST_F(Cifar, WrongLabelsNameFileAndRecord) {
  folder_.write("test_batch.bin", record(label(0), 1) + record(label(10), 1));
  EXPECT_EQ(folder_.message_of(load10(Split::test)), "test_batch.bin: record 1: expected a label below 10, found 10");
  folder_.write("test.bin", record(labels(3, 100), 1));
  EXPECT_EQ(folder_.message_of(load100(Split::test)), "test.bin: record 0: expected a label below 100, found 100");
  folder_.write("test.bin", record(labels(3, 99), 1) + record(labels(20, 99), 1));
  EXPECT_EQ(folder_.message_of(load100(Split::test)), "test.bin: record 1: expected a coarse label below 20, found 20");
}

TEST_F(Cifar, EveryTruncationIsRefused) {
  const std::string whole = record(label(1), 1) + record(label(2), 1);
  for (const std::size_t size : {1UL, 2UL, 3072UL, 3074UL, 4000UL, 6145UL}) {
    folder_.write("test_batch.bin", whole.substr(0, size));
    EXPECT_EQ(folder_.message_of(load10(Split::test)),
              "test_batch.bin: record " + std::to_string(size / 3073) + ": expected 3073 bytes, the file ends after " +
                  std::to_string(size % 3073) + ": it is truncated or not this format");
  }
  folder_.write("test_batch.bin", "");
  EXPECT_NE(folder_.message_of(load10(Split::test)).find("found empty files"), std::string::npos);
  // One format read as the other: the second record's label is a pixel of the first.
  folder_.write("test.bin", record(label(1), 7) + record(label(1), 200));
  EXPECT_FALSE(load100(Split::test).has_value());
}

TEST_F(Cifar, AMissingBatchIsNamed) {
  for (const int batch : {1, 2, 4, 5}) {
    folder_.write("data_batch_" + std::to_string(batch) + ".bin", record(label(1), 1));
  }
  EXPECT_NE(folder_.message_of(load10(Split::train), ErrorCode::not_found)
                .find("neither data_batch_3.bin nor data_batch_3.bin.gz is there"),
            std::string::npos);
}

}  // namespace
}  // namespace gleaner
