// timer_throw - exceptions thrown through many frames, all the time, from several threads; what
// is caught is counted. For samplers that walk the same stacks at the same time.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Guard {
    explicit Guard(int *n) : count(n) {}
    ~Guard() { ++*count; }
    int *count;
};

__attribute__((noinline)) void thrower(int depth, int *unwound)
{
    Guard guard(unwound);
    if (depth == 0) throw std::runtime_error("bottom " + std::to_string(*unwound));
    thrower(depth - 1, unwound);
}

void work(int rounds, int *caught)
{
    for (int i = 0; i < rounds; i++) {
        int unwound = 0;
        try {
            thrower(30, &unwound);
        } catch (const std::runtime_error &e) {
            if (unwound == 31 && std::string(e.what()) == "bottom 0") ++*caught;
        }
    }
}

} // namespace

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 5000;
    std::vector<int> caught(4);
    std::vector<std::thread> threads;
    for (int &c : caught) threads.emplace_back(work, rounds, &c);
    for (std::thread &t : threads) t.join();
    int all = 0;
    for (const int c : caught) all += c;
    std::printf("caught %d\n", all);
    return 0;
}
