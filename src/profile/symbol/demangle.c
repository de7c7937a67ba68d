/* demangle.c - C++ and Rust names through libiberty.
 *
 * As perf shows them: without parameters, since a flame graph's frame has no room for them, and
 * with the compiler's suffix kept (foo.cold, foo.constprop.0). `.llvm.HASH`, which differs from
 * build to build, is dropped.
 *
 * A mangled name of a few bytes can stand for gigabytes (each part refers twice to the one
 * before), so the text is taken piece by piece and demangling is left by longjmp when there is
 * more than we keep; libiberty holds nothing but stack at that point (Rust's punycode buffer
 * apart: a hostile name may cost a few hundred bytes). Its own limit of recursion also refuses
 * C++ names of more than 1,023 characters, which templates do reach. Up to WHOLE_MAX they are
 * demangled without it: the depth is then bounded by the length, and half a megabyte of stack
 * does for the worst. */
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

#include "profile/symbol/symbol.h"

#define SHORT_MAX 1023u /* libiberty takes these with its limit on */
#define WHOLE_MAX 4096u
#define RUST_MAX 65536u

static const char ELLIPSIS[] = "\xe2\x80\xa6";

struct demangle_output {
    struct sonde_symbol_demangler *d;
    jmp_buf full;
};

/* End the text before a character that is cut in two, with an ellipsis. */
static void demangle_cut(struct sonde_symbol_demangler *d)
{
    size_t len = SONDE_SYMBOL_TEXT_MAX - (sizeof(ELLIPSIS) - 1);
    while (len > 0 && ((unsigned char)d->text[len] & 0xc0) == 0x80) len--;
    memcpy(d->text + len, ELLIPSIS, sizeof(ELLIPSIS));
    d->len = len + sizeof(ELLIPSIS) - 1;
}

/* 1 if all of it fitted. */
static int demangle_append(struct sonde_symbol_demangler *d, const char *s, size_t len)
{
    size_t room = SONDE_SYMBOL_TEXT_MAX - d->len;
    size_t n = len < room ? len : room;
    memcpy(d->text + d->len, s, n);
    d->len += n;
    d->text[d->len] = '\0';
    if (n == len) return 1;
    demangle_cut(d);
    return 0;
}

static void demangle_piece(const char *s, size_t len, void *arg)
{
    struct demangle_output *o = arg;
    if (!demangle_append(o->d, s, len)) longjmp(o->full, 1);
}

enum demangle_style { STYLE_CXX, STYLE_RUST };

/* 1: demangled; 2: demangled and cut; 0: no such name. */
static int try_style(struct sonde_symbol_demangler *d, const char *name, enum demangle_style style,
                     int options)
{
    struct demangle_output o;
    o.d = d;
    d->len = 0;
    d->text[0] = '\0';
    if (setjmp(o.full)) return 2;
    int ok = style == STYLE_RUST ? rust_demangle_callback(name, options, demangle_piece, &o)
                                 : cplus_demangle_v3_callback(name, options, demangle_piece, &o);
    return ok && d->len > 0;
}

/* Where the compiler's own suffix begins (".cold", ".isra.0.cold"); the end if there is none. A
 * mangled name holds dots nowhere else but in Rust's legacy paths ("core..fmt"). */
static const char *suffix_of(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot ? dot : name + strlen(name);
}

static void append_suffix(struct sonde_symbol_demangler *d, const char *suffix)
{
    const char *llvm = strstr(suffix, ".llvm.");
    if (!llvm) {
        demangle_append(d, suffix, strlen(suffix));
        return;
    }
    if (!demangle_append(d, suffix, (size_t)(llvm - suffix))) return;
    const char *rest = llvm + 6;
    rest += strspn(rest, "0123456789ABCDEFabcdef");
    demangle_append(d, rest, strlen(rest));
}

static int demangle_demangled(struct sonde_symbol_demangler *d, const char *name, size_t len)
{
    if (len < 3 || name[0] != '_') return 0;
    /* Rust's legacy names are C++ names that end in a hash: ask for Rust first. */
    if ((name[1] == 'R' || name[1] == 'Z') && len <= RUST_MAX) {
        if (try_style(d, name, STYLE_RUST, DMGL_NO_OPTS)) return 1;
    }
    if (name[1] != 'Z') return 0;
    int options = DMGL_ANSI;
    if (len > WHOLE_MAX) return 0;
    if (len > SHORT_MAX) options |= DMGL_NO_RECURSE_LIMIT;
    int how = try_style(d, name, STYLE_CXX, options);
    if (how == 1) append_suffix(d, suffix_of(name));
    return how > 0;
}

const char *sonde_symbol_demangle(struct sonde_symbol_demangler *d, const char *name)
{
    const size_t len = strlen(name);
    if (demangle_demangled(d, name, len)) return d->text;
    if (len <= SONDE_SYMBOL_TEXT_MAX) return name;
    d->len = 0;
    demangle_append(d, name, len);
    return d->text;
}

const char *sonde_symbol_demangle_versioned(struct sonde_symbol_demangler *d, const char *name)
{
    const char *at = strchr(name, '@');
    char plain[SONDE_SYMBOL_TEXT_MAX];
    if (!at || at == name || (size_t)(at - name) >= sizeof(plain)) {
        return sonde_symbol_demangle(d, name);
    }
    memcpy(plain, name, (size_t)(at - name));
    plain[at - name] = '\0';
    const char *text = sonde_symbol_demangle(d, plain);
    if (text != plain) return text;
    d->len = 0;
    demangle_append(d, plain, strlen(plain));
    return d->text;
}
