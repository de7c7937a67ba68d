/* test_demangle.c - C++ and Rust names, names that are none, and names made to hurt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "profile/symbol/symbol.h"

static const struct { const char *mangled, *name; } cases[] = {
    /* no mangled names */
    { "", "" },
    { "main", "main" },
    { "_start", "_start" },
    { "_", "_" },
    { "_Z", "_Z" },
    { "_ZN", "_ZN" },
    { "_Zebra", "_Zebra" },
    { "_R", "_R" },
    { "_Rust", "_Rust" },
    { "__libc_start_main", "__libc_start_main" },
    { "i", "i" },
    { "foo.cold", "foo.cold" },
    { "operator new", "operator new" },
    { "LazyCompile:*f /a b.js:1", "LazyCompile:*f /a b.js:1" },
    { "\xff\xfe", "\xff\xfe" },
    /* C++: without parameters and return types */
    { "_Z3foov", "foo" },
    { "_Z3fooIiET_S0_", "foo<int>" },
    { "_ZN4shop3boxIiE3getEv", "shop::box<int>::get" },
    { "_ZNKSt6vectorIiSaIiEE4sizeEv", "std::vector<int, std::allocator<int> >::size" },
    { "_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back" },
    { "_ZN12_GLOBAL__N_13fooEv", "(anonymous namespace)::foo" },
    { "_ZZ4mainENKUliE_clEi", "main::{lambda(int)#1}::operator()" },
    { "_ZN4shop5shapeD0Ev", "shop::shape::~shape" },
    { "_ZN4shop5shapeC2ERKS0_", "shop::shape::shape" },
    { "_ZTV5shape", "vtable for shape" },
    { "_ZThn16_N1A1fEv", "non-virtual thunk to A::f()" },
    { "_ZlsRSoRK3Foo", "operator<<" },
    { "_Znwm", "operator new" },
    { "_ZN3FooltERKS_", "Foo::operator<" },
    { "_ZN3FooaSEOS_", "Foo::operator=" },
    { "_ZN3FoocvbEv", "Foo::operator bool" },
    { "_ZGVZ3foovE1x", "guard variable for foo()::x" },
    /* the compiler's suffixes stay; the hash of ThinLTO goes */
    { "_Z3foov.cold", "foo.cold" },
    { "_Z3foov.part.0", "foo.part.0" },
    { "_ZN1a3fooEi.constprop.0.isra.0", "a::foo.constprop.0.isra.0" },
    { "_Z3foov.llvm.1234567890", "foo" },
    { "_Z3foov.llvm.1234567890.cold", "foo.cold" },
    /* Rust, legacy: the hash goes */
    { "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad" },
    { "_ZN3foo3bar17h05af221e174051e9E", "foo::bar" },
    { "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
      "3bar17h930b740aa94f1d3aE",
      "<Test + 'static as foo::Bar<Test>>::bar" },
    { "_ZN54_$LT$I$u20$as$u20$core..iter..traits..IntoIterator$GT$9into_iter"
      "17h8581507801fb8615E",
      "<I as core::iter::traits::IntoIterator>::into_iter" },
    { "_ZN10parse_tsan4main17hdbbfdf1c6a7e27d9E", "parse_tsan::main" },
    { "_ZN65_$LT$std..env..Args$u20$as$u20$core..iter..iterator..Iterator$GT$4next"
      "17h420a7c8d0c7eef40E",
      "<std::env::Args as core::iter::iterator::Iterator>::next" },
    { "_ZN4test1a2bc17h0123456789abcdefE.llvm.A5310EB9", "test::a::bc" },
    /* Rust, v0 */
    { "_RNvC6_123foo3bar", "123foo::bar" },
    { "_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar" },
    { "_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}" },
    { "_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1iopQbuBiw2"
      "_3std",
      "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>" },
    { "_RNvMC0INtC8arrayvec8ArrayVechKj7b_E3new", "<arrayvec::ArrayVec<u8, 123>>::new" },
    { "_RMC0INtC8arrayvec8ArrayVechKj7b_E", "<arrayvec::ArrayVec<u8, 123>>" },
};

static struct sonde_symbol_demangler demangler;

static void known_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *name = sonde_symbol_demangle(&demangler, cases[i].mangled);
        if (strcmp(name, cases[i].name) != 0) {
            fail_msg("%s became \"%s\", not \"%s\"", cases[i].mangled, name, cases[i].name);
        }
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void versions_are_cut(void **state)
{
    static const struct { const char *symbol, *name; } symbols[] = {
        { "read@@GLIBC_2.2.5", "read" },
        { "memcpy@GLIBC_2.14", "memcpy" },
        { "_ZSt9terminatev@@GLIBCXX_3.4", "std::terminate" },
        { "@", "@" },
        { "plain", "plain" },
        { "_Z3foov.cold", "foo.cold" },
    };
    struct sonde_symbol_demangler d;
    (void)state;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        assert_string_equal(sonde_symbol_demangle_versioned(&d, symbols[i].symbol),
                            symbols[i].name);
    }
}

/* unit repeated between head and tail, len characters in all or a little more */
static char *repeated(const char *head, const char *unit, const char *tail, size_t len)
{
    const size_t most = len + strlen(head) + strlen(unit) + strlen(tail) + 1;
    char *s = malloc(most);
    assert_non_null(s);
    size_t n = strlen(head);
    memcpy(s, head, n);
    while (n < len) {
        memcpy(s + n, unit, strlen(unit));
        n += strlen(unit);
    }
    memcpy(s + n, tail, strlen(tail) + 1);
    return s;
}

/* Deep, wide and self-referring names end, and give at most 4 KiB of valid UTF-8. */
static void bombs(void **state)
{
    static const struct { const char *head, *unit, *tail; } made[] = {
        { "_Z1f", "P", "i" },              { "_Z1fI", "1aI", "i" },
        { "_Z1fI", "N1aI", "E" },          { "_Z1fI", "Xcv", "i" },
        { "_Z1fI", "J", "E" },             { "_Z", "Z1f", "v" },
        { "_ZN", "1a", "Ev" },             { "_Z1fI", "DT", "i" },
        { "_Z1fI", "A_", "i" },            { "_Z1fI", "M1a", "i" },
        { "_Z1fSt", "4pairIS_S_E", "" },   { "_Z1f", "F", "vE" },
        { "_RNv", "Nv", "C1a" },           { "_R", "NC", "C1a0" },
        { "_RIC1a", "T", "E" },            { "_RIC1a", "R", "uE" },
        { "_RIC1a", "TB2_B2_", "E" },      { "_RNvC1a", "B_", "" },
        { "_ZN", "3abc", "17h0123456789abcdefE" }, { "_ZN9", "$LT$", "17h0123456789abcdefE" },
        { "", "x", "" },                   { "", "\xc3\xa9", "" },
        { "_Z", "9999999999", "" },        { "_R", "9", "" },
        { "_RNvC", "u8xn--_", "" },
    };
    static const size_t lengths[] = { 30, 100, 1000, 1023, 1024, 2000, 4090, 4096, 4097, 10000,
                                      65535, 65537, 1000000 };
    (void)state;
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
            char *name = repeated(made[i].head, made[i].unit, made[i].tail, lengths[k]);
            const char *text = sonde_symbol_demangle(&demangler, name);
            assert_true(strlen(text) <= SONDE_SYMBOL_TEXT_MAX);
            assert_true(sonde__utf8_valid(text, strlen(text)));
            free(name);
        }
    }
}

/* Template arguments p<int, int>, then a pair of the one before again and again (S0_ is p, S1_ the
 * first pair, S2_ the second): 400 characters that stand for 2^34. */
static void doubling(void **state)
{
    static const char digits[] = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char name[1024] = "_Z1fI1pIiiE";
    size_t n = strlen(name);
    (void)state;
    for (const char *d = digits; *d; d++) {
        n += (size_t)snprintf(name + n, sizeof(name) - n, "S0_IS%c_S%c_E", *d, *d);
    }
    snprintf(name + n, sizeof(name) - n, "Evv");
    const char *text = sonde_symbol_demangle(&demangler, name);
    assert_memory_equal(text, "f<p<int, int>, p<p<int, int>, p<int, int> >, ", 45);
    assert_int_equal(strlen(text), SONDE_SYMBOL_TEXT_MAX);
}

/* A template name longer than libiberty's own limit takes is demangled, and cut where we cut. */
static void long_templates(void **state)
{
    (void)state;
    char *name = repeated("_Z3fooIJ", "i", "EEvv", 2000);
    const char *text = sonde_symbol_demangle(&demangler, name);
    assert_memory_equal(text, "foo<int, int, int, ", 19);
    assert_int_equal(strlen(text), SONDE_SYMBOL_TEXT_MAX);
    assert_string_equal(text + strlen(text) - 3, "\xe2\x80\xa6");
    free(name);
    name = repeated("", "\xe2\x82\xac", "", 6000);
    text = sonde_symbol_demangle(&demangler, name);
    assert_true(sonde__utf8_valid(text, strlen(text)));
    assert_string_equal(text + strlen(text) - 3, "\xe2\x80\xa6");
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_names), cmocka_unit_test(versions_are_cut), cmocka_unit_test(bombs),
        cmocka_unit_test(doubling),    cmocka_unit_test(long_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
