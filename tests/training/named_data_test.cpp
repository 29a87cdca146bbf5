#include "training/named_data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/training/scratch_folder.hpp"

namespace gleaner {
namespace {

std::string idx(const std::string& dims, const std::string& values) {
  return std::string("\0\0\x08", 3) + static_cast<char>(dims.size()) + [&] {
    std::string text;
    for (const char dim : dims) text += std::string(3, '\0') + dim;
    return text;
  }() + values;
}

class NamedData : public ::testing::Test {
 protected:
  auto load(const DataSource& source, Split split = Split::train) const { return load_dataset(source, split); }
  void write_idx(const std::string& stem = "") const {
    folder_.write(stem + "train-images-idx3-ubyte", idx("\2\1\2", "abcd"));
    folder_.write(stem + "train-labels-idx1-ubyte", idx("\2", "\1\2"));
  }
  testing::ScratchFolder folder_;
};

TEST_F(NamedData, UnknownNameListsTheKnown) {
  const auto message = folder_.message_of(load({.name = "fashion-mnits"}), ErrorCode::bad_input);
  EXPECT_NE(message.find("there are fashion-mnist, mnist"), std::string::npos);
  EXPECT_NE(message.find("did you mean fashion-mnist?"), std::string::npos);
  EXPECT_TRUE(dataset_places("fashion").empty());
  EXPECT_FALSE(dataset_places("fashion-mnist").empty());
  for (const std::string& name : known_datasets()) EXPECT_GE(dataset_places(name).size(), 2U) << name;
}

TEST_F(NamedData, ADirectorysFormatIsThatOfTheNameOrSeen) {
  write_idx();
  const auto own = load({.name = "own", .directory = folder_.path()});
  ASSERT_TRUE(own.has_value()) << own.error().message();
  EXPECT_EQ(own->classes, 3U);
  EXPECT_EQ(own->standardisation.mean, 0.0);
  const auto known = load({.name = "mnist", .directory = folder_.path()});
  EXPECT_EQ(known->classes, 10U);
  EXPECT_EQ(known->standardisation.mean, 0.1307);
  EXPECT_EQ(load({.name = "mnist", .directory = folder_.path(), .classes = 4})->classes, 4U);
  EXPECT_EQ(folder_.message_of(load({.name = "own", .directory = folder_.path(), .classes = 2}), ErrorCode::bad_input),
            "train-labels-idx1-ubyte: has label 2, but there are 2 classes");
  EXPECT_EQ(
      folder_.message_of(load({.name = "own", .directory = folder_.path(), .format = "png"}), ErrorCode::bad_input),
      "unknown data format \"png\": there are idx, cifar10, cifar100 and leaf");
  write_idx("emnist-digits-");
  EXPECT_EQ(load({.name = "emnist-digits", .directory = folder_.path()})->samples, 2U);
  EXPECT_FALSE(load({.name = "emnist-letters", .directory = folder_.path()}).has_value());
}

TEST_F(NamedData, CifarIsSeenByItsFiles) {
  folder_.write("test_batch.bin", "\3" + std::string(3072, 'x'));
  const auto ten = load({.name = "own", .directory = folder_.path()}, Split::test);
  ASSERT_TRUE(ten.has_value()) << ten.error().message();
  EXPECT_EQ(ten->classes, 10U);
  EXPECT_EQ(load({.name = "cifar10", .directory = folder_.path()}, Split::test)->standardisation.mean, 0.4734);
  EXPECT_EQ(load({.name = "own", .directory = folder_.path(), .classes = 4}, Split::test)->classes, 4U);
  EXPECT_EQ(folder_.message_of(load({.name = "own", .directory = folder_.path(), .classes = 3}, Split::test),
                               ErrorCode::bad_input),
            "data set own has label 3, but there are 3 classes");
  // A folder of the other format, if the name says so.
  EXPECT_FALSE(load({.name = "cifar100", .directory = folder_.path()}, Split::test).has_value());
}

TEST_F(NamedData, StandInsHaveTheShapeOfTheReal) {
  const auto cifar = synthetic_stand_in("cifar10", Split::train, 40);
  ASSERT_TRUE(cifar.has_value());
  EXPECT_EQ(cifar->samples, 40U);
  EXPECT_EQ(cifar->features, 3072U);
  EXPECT_EQ(cifar->channels, 3U);
  EXPECT_EQ(cifar->pixels.size(), 40U * 3072U);
  const auto test = synthetic_stand_in("cifar10", Split::test, 40);
  EXPECT_EQ(test->labels, cifar->labels);
  EXPECT_NE(test->pixels, cifar->pixels);
  const auto named = load({.name = "synthetic-mnist"}, Split::test);
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->samples, 10'000U);
  EXPECT_FALSE(load({.name = "synthetic-mnits"}).has_value());
}

TEST_F(NamedData, TheStandInOfFemnistHasWriters) {
  EXPECT_FALSE(synthetic_stand_in("femnist", Split::train, 3'399).has_value());
  const auto data = synthetic_stand_in("femnist", Split::train, 13'600);
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->classes, 62U);
  EXPECT_EQ(data->user_names.size(), 3'400U);
  ASSERT_EQ(data->users.size(), 13'600U);
  std::vector<std::uint32_t> sizes(3'400, 0);
  for (const std::uint32_t user : data->users) ++sizes.at(user);
  EXPECT_GE(*std::ranges::min_element(sizes), 1U);
  EXPECT_GE(*std::ranges::max_element(sizes), 6U);
  EXPECT_EQ(std::set(data->labels.begin(), data->labels.end()).size(), 62U);
  EXPECT_EQ(data->pixels, synthetic_stand_in("femnist", Split::train, 13'600)->pixels);
}

}  // namespace
}  // namespace gleaner
