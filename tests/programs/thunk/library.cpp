/* The functions of calls.h. */
#include <csetjmp>
#include <cstdarg>
#include <pthread.h>

#include "calls.h"

void *thunk_jump;

double llama_synchronize(int a, int64_t b, int c, int64_t d, int e, int64_t f, int g, int64_t h, int i,
                         double k, double l, double m, double n, double o, double p, double q,
                         double r, double s, double t)
{
    return a + 2. * (double)b + 3. * c + 4. * (double)d + 5. * e + 6. * (double)f + 7. * g +
           8. * (double)h + 9. * i + 10 * k + 11 * l + 12 * m + 13 * n + 14 * o + 15 * p + 16 * q +
           17 * r + 18 * s + 19 * t;
}

struct large llama_memory_clear(int a, struct large in, double b)
{
    for (int i = 0; i < 40; i++) in.v[i] = in.v[i] * a + (int64_t)b;
    return in;
}

int64_t llama_perf_context_reset(int count, ...)
{
    va_list ap;
    int64_t sum = 0;
    va_start(ap, count);
    for (int i = 0; i < count; i++) {
        sum += va_arg(ap, int64_t);
        sum += (int64_t)va_arg(ap, double);
    }
    va_end(ap);
    return sum;
}

struct small llama_get_logits(struct small in, long double x)
{
    return { in.a * 3, in.b + (double)x };
}

struct pair llama_get_embeddings_ith(struct pair in) { return { in.b, in.a }; }
struct longs llama_get_embeddings_seq(struct longs in) { return { in.b, in.a }; }
long double llama_get_memory(long double x, int y) { return x * y; }

int llama_model_free(struct wide in, int align)
{
    double sum = 0;
    for (double v : in.v) sum += v;
    return sum == 36 && (uintptr_t)&in % (uintptr_t)align == 0;
}

int llama_set_warmup(int depth) { return depth ? 1 + llama_set_warmup(depth - 1) : 0; }

void llama_sampler_apply(int what)
{
    if (what == 1) throw 42;
    if (what == 2) longjmp(*(jmp_buf *)thunk_jump, 1);
    if (what == 3) pthread_exit((void *)7);
    if (what > 10) llama_sampler_apply(what - 10); /* samplers made of samplers */
}

void *llama_free(void *(*call)(void *), void *arg) { return call(arg); }

int llama_vocab_is_eog(void *p, int x) { return p != nullptr && x == 2; }
