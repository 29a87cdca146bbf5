#include "simulation/devices/pickle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <charconv>

#include "simulation/devices/pickle_text.hpp"

namespace gleaner::simulation::pickle {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string from_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 2 <= hex.size(); i += 2) {
    unsigned byte = 0;
    std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    out += static_cast<char>(byte);
  }
  return out;
}

std::string refusal(std::string_view bytes) {
  const auto document = load(bytes);
  return document ? "read" : document.error().message();
}

std::string show(const Document& d, const Value& value) {
  if (const auto* items = d.list(value)) {
    std::string out = "[";
    for (const Value& item : *items) out += show(d, item) + ",";
    return out + "]";
  }
  if (const auto* entries = d.dict(value)) {
    std::string out = "{";
    for (const auto& [key, of] : *entries) out += show(d, key) + ":" + show(d, of) + ",";
    return out + "}";
  }
  return d.describe(value);
}

std::string show(std::string_view bytes) {
  const auto document = load(bytes);
  return document ? show(*document, document->root) : document.error().message();
}

// {1: {"a": [1, -2, 300, 70000, 2**40, -2**40], "f": 1.5, "s": "é'x", "t": True, "n": None}} as Python wrote it.
constexpr std::string_view kByProtocol[] = {
    "286470300a49310a286470310a56610a70320a286c70330a49310a61492d320a61493330300a614937303030300a614c313039393531313632"
    "3"
    "73737364c0a614c2d313039393531313632373737364c0a617356660a70340a46312e350a7356730a70350a56e927780a70360a7356740a703"
    "7"
    "0a4930310a73566e0a70380a4e73732e",
    "7d71004b017d71012858010000006171025d7103284b014afeffffff4d2c014a701101004c313039393531313632373737364c0a4c2d313039"
    "3"
    "93531313632373737364c0a655801000000667104473ff800000000000058010000007371055804000000c3a92778710658010000007471074"
    "9"
    "30310a58010000006e71084e75732e",
    "80027d71004b017d71012858010000006171025d7103284b014afeffffff4d2c014a701101008a060000000000018a060000000000ff655801"
    "0"
    "00000667104473ff800000000000058010000007371055804000000c3a92778710658010000007471078858010000006e71084e75732e",
    "80037d71004b017d71012858010000006171025d7103284b014afeffffff4d2c014a701101008a060000000000018a060000000000ff655801"
    "0"
    "00000667104473ff800000000000058010000007371055804000000c3a92778710658010000007471078858010000006e71084e75732e",
    "80049553000000000000007d944b017d94288c0161945d94284b014afeffffff4d2c014a701101008a060000000000018a060000000000ff65"
    "8"
    "c016694473ff80000000000008c0173948c04c3a92778948c017494888c016e944e75732e"};

TEST(Pickle, EveryProtocolGivesTheSameValues) {
  for (const std::string_view hex : kByProtocol) {
    EXPECT_EQ(
        show(from_hex(hex)),
        "{1:{\"a\":[1,-2,300,70000,1099511627776,-1099511627776,],\"f\":1.5,\"s\":\"é'x\",\"t\":True,\"n\":None,},}")
        << hex.substr(0, 20);
  }
}

TEST(Pickle, EveryPrefixIsRefusedWithItsPlace) {
  for (const std::string_view hex : kByProtocol) {
    const std::string whole = from_hex(hex);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THAT(refusal(std::string_view(whole).substr(0, size)), StartsWith("byte ")) << size;
    }
  }
}

TEST(Pickle, WhatWouldMakeAnObjectIsRefused) {
  EXPECT_THAT(refusal("cos\nsystem\n(S'true'\ntR."), HasSubstr("opcode 0x63: only dict, list, int, float and str"));
  EXPECT_THAT(refusal(from_hex("80024b018552")), HasSubstr("opcode 0x85"));                    // a tuple
  EXPECT_THAT(refusal(from_hex("800463")), StartsWith("byte 2:"));                             // GLOBAL
  EXPECT_THAT(refusal(from_hex("80048c026f738c0673797374656d93")), HasSubstr("opcode 0x93"));  // STACK_GLOBAL
  for (const char code : {'R', 'b', 'i', 'o', 'c', 'P', 'Q', '\x81', '\x82', '\x92', 't', '\x96', '\x8f'}) {
    EXPECT_THAT(refusal(std::string("K\x01") + code), HasSubstr("opcode 0x"));
  }
  EXPECT_THAT(refusal(from_hex("80054e2e")), HasSubstr("pickle protocol 5, expected 0 to 4"));
}

TEST(Pickle, MisusedOpcodesAreRefused) {
  EXPECT_THAT(refusal("."), HasSubstr("other than one value"));
  EXPECT_THAT(refusal("NN."), HasSubstr("other than one value"));
  EXPECT_THAT(refusal("(."), HasSubstr("other than one value"));
  EXPECT_THAT(refusal("N.N"), HasSubstr("1 bytes follow the end"));
  EXPECT_THAT(refusal("0."), HasSubstr("empty stack"));
  EXPECT_THAT(refusal("N1."), HasSubstr("without a mark"));
  EXPECT_THAT(refusal("e."), HasSubstr("without a mark"));
  EXPECT_THAT(refusal("(e."), HasSubstr("no list"));
  EXPECT_THAT(refusal("N(Ne."), HasSubstr("no list"));
  EXPECT_THAT(refusal("](NNu."), HasSubstr("no dictionary"));
  EXPECT_THAT(refusal("}(Nu."), HasSubstr("a key without a value"));
  EXPECT_THAT(refusal("(Nd."), HasSubstr("a key without a value"));
  EXPECT_THAT(refusal("N(a."), HasSubstr("a mark where an item"));
  EXPECT_THAT(refusal("a."), HasSubstr("an item for nothing"));
  EXPECT_THAT(refusal("((Ns."), HasSubstr("mark where"));
  EXPECT_THAT(refusal("h\x05."), HasSubstr("never remembered"));
  EXPECT_THAT(refusal("q\x05."), HasSubstr("nothing to remember"));
  EXPECT_THAT(refusal("pA\nN."), HasSubstr("no number"));
  EXPECT_THAT(refusal("I1"), HasSubstr("without an end"));
  EXPECT_THAT(refusal("I1x\n."), HasSubstr("no integer"));
  EXPECT_THAT(refusal("I99999999999999999999\n."), HasSubstr("no integer of 64 bits"));
  EXPECT_THAT(refusal("F1x\n."), HasSubstr("no number"));
  EXPECT_THAT(refusal(from_hex("8a09")), HasSubstr("an integer of 9 bytes"));
  EXPECT_THAT(refusal(from_hex("58ffffffff61")), HasSubstr("ends too early"));
  EXPECT_THAT(refusal(from_hex("8dffffffffffffffff61")), HasSubstr("ends too early"));
  EXPECT_THAT(refusal(from_hex("8c02c32e2e")), HasSubstr("not UTF-8"));
}

TEST(Pickle, SharedAndEndlessListsAreReadOnce) {
  EXPECT_EQ(show("](](K\x01"
                 "eq\x01h\x01h\x01"
                 "e."),
            "[[1,],[1,],[1,],]");
  const auto endless = load(
      "]q\x01h\x01"
      "a.");  // a list that holds itself
  ASSERT_TRUE(endless);
  EXPECT_EQ(endless->lists.size(), 1U);
  EXPECT_EQ(std::get<List>(endless->lists[0].at(0)).index, 0U);
}

TEST(Pickle, SpellingsOfStrings) {
  EXPECT_EQ(from_python_literal(R"('a\'b\n\x41\\')"), "a'b\nA\\");
  EXPECT_EQ(from_python_literal(R"("a'b")"), "a'b");
  for (const char* wrong : {"", "'", "a", "'a", "'a\"", R"('a\')", R"('\xg1')", R"('\q')", R"('a'b')", R"('\xff')"}) {
    EXPECT_EQ(from_python_literal(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(from_raw_unicode("a\\u20ac\\U0001F600\xe9"), "a€😀é");
  for (const char* wrong : {"\\u20a", "\\ud800", "\\U00110000", "\\uzzzz"}) {
    EXPECT_EQ(from_raw_unicode(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(checked_utf8("a€😀é"), "a€😀é");
  for (const char* wrong : {"\x80", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xc3("}) {
    EXPECT_EQ(checked_utf8(wrong), std::nullopt) << wrong;
  }
}

RC_GTEST_PROP(Pickle, DamagedOnesAreReadOrRefused, ()) {
  std::string bytes = from_hex(kByProtocol[*rc::gen::inRange<std::size_t>(0, std::size(kByProtocol))]);
  const int changes = *rc::gen::inRange(1, 6);
  for (int i = 0; i < changes; ++i) {
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = static_cast<char>(*rc::gen::inRange(0, 256));
  }
  const auto document = load(bytes);
  if (!document) RC_ASSERT(document.error().message().starts_with("byte "));
  if (document) RC_ASSERT(!document->describe(document->root).empty());
}

}  // namespace
}  // namespace gleaner::simulation::pickle
