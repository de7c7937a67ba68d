// throw.cpp - exceptions thrown and caught, to be stepped through like steps.c: the unwinder of
// libgcc at work, landing pads, destructors on the way, std::sort, std::function, virtual calls.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

volatile int total;

struct guard {
    explicit guard(int n) : n(n) {}
    ~guard() { total = total + n; }
    int n;
};

__attribute__((noinline)) void thrower(int n)
{
    guard g(n);
    if (!n) throw std::runtime_error("the bottom");
    thrower(n - 1);
    total = total + 1;
}

struct base {
    virtual ~base() = default;
    virtual int call(int n) = 0;
};

struct derived : base {
    __attribute__((noinline)) int call(int n) override
    {
        try {
            thrower(n);
        } catch (const std::logic_error &) {
            return -1;
        }
        return n;
    }
};

} // namespace

int main(int argc, char **)
{
    if (argc > 1) __asm__ volatile("int3"); // whoever steps through it may begin here
    std::vector<std::string> words = { "sonde", "probe",   "lane",
                                       "span",  "segment", "a longer string here" };
    std::sort(words.begin(), words.end(), [](const std::string &a, const std::string &b) {
        total = total + 1;
        return a.size() < b.size();
    });
    derived d;
    std::function<int(int)> f = [&d](int n) { return d.call(n); };
    try {
        total = total + f(5);
    } catch (const std::exception &e) {
        total = total + static_cast<int>(std::string(e.what()).size());
    }
    std::printf("%d\n", total > 0);
    return 0;
}
