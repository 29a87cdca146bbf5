#include <cstdio>

#include "tests/config/reference.hpp"

int main() {
  const std::string text = gleaner::configuration_reference();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
