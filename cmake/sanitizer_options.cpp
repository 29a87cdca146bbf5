// What a sanitized program does on a finding: it says where, with names, and ends. Compiled in, so that it also holds
// for programs started by a test or by hand; the usual environment variables still override it.

#ifndef GLEANER_SYMBOLIZER
#define GLEANER_SYMBOLIZER ""
#endif

extern "C" {

// The names are the sanitizers' own.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern const char* __asan_default_options();
extern const char* __ubsan_default_options();
extern const char* __tsan_default_options();

__attribute__((used)) const char* __asan_default_options() {
  return "external_symbolizer_path=" GLEANER_SYMBOLIZER
         ":halt_on_error=1:detect_stack_use_after_return=1:check_initialization_order=1:strict_init_order=1"
         ":detect_leaks=1:allocator_may_return_null=0";
}
__attribute__((used)) const char* __ubsan_default_options() {
  return "external_symbolizer_path=" GLEANER_SYMBOLIZER ":halt_on_error=1:print_stacktrace=1";
}
__attribute__((used)) const char* __tsan_default_options() {
  return "external_symbolizer_path=" GLEANER_SYMBOLIZER ":halt_on_error=1:second_deadlock_stack=1";
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

}  // extern "C"
