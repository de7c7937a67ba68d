// burn_throw - burn's shares in C++: alpha, beta and gamma use 60, 30 and 10 % of the CPU time of
// two threads, and throw and catch exceptions all the time, through frames that have something to
// destroy. Prints what burn does: `truth NAME NS`, `done NAME COUNT`.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <thread>
#include <vector>

namespace work {

struct Guard {
    explicit Guard(uint64_t *n) : count(n) {}
    ~Guard() { ++*count; }
    uint64_t *count;
};

inline uint64_t now()
{
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

__attribute__((noinline)) uint64_t thrower(int depth, uint64_t *unwound)
{
    Guard guard(unwound);
    if (depth == 0) throw std::runtime_error("the bottom");
    return thrower(depth - 1, unwound) + 1;
}

// Until so much CPU time is used, whoever calls; returns how often something was caught.
template <int depth> inline uint64_t throw_for(uint64_t ns)
{
    uint64_t caught = 0;
    for (const uint64_t end = now() + ns; now() < end;) {
        uint64_t unwound = 0;
        try {
            thrower(depth, &unwound);
        } catch (const std::exception &) {
            if (unwound != depth + 1) std::abort();
            ++caught;
        }
    }
    return caught;
}

__attribute__((noinline)) uint64_t alpha(uint64_t ns) { return throw_for<3>(ns) + 1; }

__attribute__((noinline)) uint64_t beta(uint64_t ns, int depth)
{
    volatile uint64_t local[4] = { ns }; // keeps it from becoming a loop
    const uint64_t caught = depth ? beta(ns, depth - 1) : throw_for<30>(ns);
    return caught + (local[depth & 3] == 1);
}

class Gamma {
public:
    virtual ~Gamma() = default;
    __attribute__((noinline)) virtual uint64_t gamma(uint64_t ns) { return throw_for<10>(ns) + 1; }
};

struct Burned {
    uint64_t ns[3] = {}, caught = 0;
};

void burn(uint64_t all, Burned *b)
{
    constexpr uint64_t turn = 5300000; // no multiple of a sampler's period
    Gamma g;
    for (uint64_t total = 0; total < all;) {
        // A part for as many tenths as it has, each a while, so that rare samples will do.
        for (int part = 0; part < 3; part++) {
            const uint64_t before = now();
            const uint64_t ns = turn * (part == 0 ? 6 : part == 1 ? 3 : 1);
            b->caught += part == 0 ? alpha(ns) : part == 1 ? beta(ns, 20) : g.gamma(ns);
            b->ns[part] += now() - before;
            total += now() - before;
        }
    }
}

} // namespace work

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
    std::vector<work::Burned> burned(2);
    std::vector<std::thread> threads;
    const auto ns = static_cast<uint64_t>(seconds * 1e9);
    for (auto &b : burned) threads.emplace_back(work::burn, ns, &b);
    for (auto &t : threads) t.join();
    static const char *const names[] = { "alpha", "beta", "gamma" };
    for (int i = 0; i < 3; i++) {
        std::printf("truth %s %llu\n", names[i],
                    static_cast<unsigned long long>(burned[0].ns[i] + burned[1].ns[i]));
    }
    std::printf("done threads %d\n", static_cast<int>(burned[0].caught && burned[1].caught) * 2);
    return 0;
}
