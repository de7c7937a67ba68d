/* alloc_churn.c - evaluates formulas by building a tree of small nodes for each and freeing it
 * at once: millions of allocations per second. */
#include "bench.h"

struct node { struct node *left, *right; double value; char operation; };

static char formula[512];

BENCH_NOINLINE static struct node *node_make(char operation, double value, struct node *left,
                                             struct node *right)
{
    struct node *n = malloc(sizeof(*n)); /* PLANTED: one per operator and number */
    if (!n) bench_fail("malloc");
    *n = (struct node){ left, right, value, operation };
    return n;
}

BENCH_NOINLINE static struct node *formula_parse(const char **at, unsigned depth)
{
    struct node *left = node_make('n', **at - '0', NULL, NULL); /* PLANTED: its caller */
    (*at)++;
    while (**at && depth) {
        const char operation = *(*at)++;
        struct node *right = operation == '+' ? formula_parse(at, depth - 1)
            : node_make('n', *(*at)++ - '0', NULL, NULL);
        left = node_make(operation, 0, left, right);
    }
    return left;
}

BENCH_NOINLINE static double formula_value(const struct node *n)
{
    if (n->operation == 'n') return n->value;
    const double left = formula_value(n->left), right = formula_value(n->right);
    return n->operation == '+' ? left + right : left - right;
}

BENCH_NOINLINE static void formula_free(struct node *n)
{
    if (n->left) formula_free(n->left);
    if (n->right) formula_free(n->right);
    free(n);
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const unsigned terms = bench_between(&b.random, 20, 200);
    double sum = 0;
    while (bench_running(&b)) {
        for (unsigned i = 0; i < terms; i++) {
            formula[2 * i] = (char)('0' + bench_random(&b.random) % 10);
            formula[2 * i + 1] = i + 1 < terms ? "+-"[bench_random(&b.random) % 2] : 0;
        }
        const char *at = formula;
        struct node *tree = formula_parse(&at, 8);
        sum += formula_value(tree);
        formula_free(tree);
    }
    return sum == 1;
}
