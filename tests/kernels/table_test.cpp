#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/kernels.hpp"

namespace gleaner {
namespace {

TEST(KernelTables, EveryNameIsParsed) {
  EXPECT_EQ(parse_backend("auto").value(), Backend::automatic);
  EXPECT_EQ(parse_backend("reference").value(), Backend::reference);
  EXPECT_EQ(parse_backend("cpu").value(), Backend::cpu);
  EXPECT_EQ(parse_backend("cuda").value(), Backend::cuda);
}

TEST(KernelTables, UnknownNameListsTheCandidates) {
  const auto backend = parse_backend("gpu");
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code(), ErrorCode::bad_input);
  for (const char* name : {"gpu", "auto", "reference", "cpu", "cuda"}) {
    EXPECT_THAT(backend.error().message(), ::testing::HasSubstr(name));
  }
}

TEST(KernelTables, AutomaticNeverFails) {
  const auto chosen = kernels_for(Backend::automatic);
  ASSERT_TRUE(chosen);
  const auto cuda = kernels_for(Backend::cuda);
  EXPECT_EQ((*chosen)->name, cuda ? "cuda" : "cpu");
}

TEST(KernelTables, MissingCudaNamesWhatIsMissing) {
  const auto cuda = kernels_for(Backend::cuda);
  if (cuda) {
    EXPECT_EQ((*cuda)->name, "cuda");
  } else {
    EXPECT_THAT(cuda.error().message(), ::testing::HasSubstr("CUDA"));
  }
}

}  // namespace
}  // namespace gleaner
