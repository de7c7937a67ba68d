// A C++ plugin for programs that are not C++.
#include <cstddef>
#include <new>
#include <string>
#include <vector>

extern "C" void *take(size_t n);

void *take(size_t n)
{
    std::vector<std::string> all;
    for (int i = 0; i < 100; i++) all.emplace_back(200, 'x');
    try {
        volatile size_t too_much = static_cast<size_t>(1) << 60;
        ::operator delete(::operator new(too_much));
        return nullptr;
    } catch (const std::bad_alloc &) {
        return all.size() == 100 ? __builtin_malloc(n) : nullptr;
    }
}
