// mem_new - a C++ program that knows what it allocates, by every form of operator new. As mem_host
// it says at the end
//     site NAME START STOP allocations bytes frees bytes-freed
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

extern const char __start_site_made[], __stop_site_made[];
#define IN(name) __attribute__((noinline, section("site_" #name)))

static uint64_t allocs, bytes, frees, freed;

struct alignas(128) wide { char text[256]; };

static volatile size_t size_seen; // so that no pair of new and delete is left out

template <typename T> static T *came(T *p, size_t n)
{
    if (!p) return p;
    size_seen = reinterpret_cast<uintptr_t>(p);
    __atomic_fetch_add(&allocs, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&bytes, n, __ATOMIC_RELAXED);
    return p;
}

static void went(size_t n)
{
    __atomic_fetch_add(&frees, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&freed, n, __ATOMIC_RELAXED);
}

IN(made) static void *make(int kind, size_t n)
{
    switch (kind) {
    case 0: return came(::operator new(n), n);
    case 1: return came(::operator new[](n), n);
    case 2: return came(::operator new(n, std::nothrow), n);
    case 3: return came(::operator new[](n, std::nothrow), n);
    case 4: return came(::operator new(n, std::align_val_t(64)), n);
    case 5: return came(::operator new[](n, std::align_val_t(64)), n);
    case 6: return came(::operator new(n, std::align_val_t(64), std::nothrow), n);
    default: return came(::operator new[](n, std::align_val_t(64), std::nothrow), n);
    }
}

static void unmake(int kind, void *p, size_t n)
{
    went(n);
    if (n % 2) { // sized
        switch (kind) {
        case 0: case 2: ::operator delete(p, n); return;
        case 1: case 3: ::operator delete[](p, n); return;
        case 4: case 6: ::operator delete(p, n, std::align_val_t(64)); return;
        default: ::operator delete[](p, n, std::align_val_t(64)); return;
        }
    }
    switch (kind) {
    case 0: ::operator delete(p); return;
    case 1: ::operator delete[](p); return;
    case 2: ::operator delete(p, std::nothrow); return;
    case 3: ::operator delete[](p, std::nothrow); return;
    case 4: ::operator delete(p, std::align_val_t(64)); return;
    case 5: ::operator delete[](p, std::align_val_t(64)); return;
    case 6: ::operator delete(p, std::align_val_t(64), std::nothrow); return;
    default: ::operator delete[](p, std::align_val_t(64), std::nothrow); return;
    }
}

// Allocates and frees while the thread's variables are taken apart.
struct late {
    std::vector<void *> kept;
    ~late()
    {
        for (void *p : kept) unmake(0, p, 50);
        unmake(1, make(1, 70), 70);
    }
};
static thread_local late at_end;

static void churn(int n)
{
    for (int i = 0; i < n; i++) {
        const size_t size = static_cast<size_t>(i % 900);
        void *p = make(i % 8, size);
        if (size) std::memset(p, 1, size);
        if (i % 3) unmake(i % 8, p, size);
    }
    for (int i = 0; i < 5; i++) at_end.kept.push_back(make(0, 50));
}

static int refused(size_t n)
{
    int caught = 0;
    try {
        make(0, n);
    } catch (const std::bad_alloc &) {
        caught = 1;
    }
    return caught && !make(2, n);
}

int main(int argc, char **argv)
{
    const int n = argc > 1 ? std::atoi(argv[1]) : 1000;
    std::vector<std::thread> threads;
    churn(n);
    for (int i = 0; i < 4; i++) threads.emplace_back(churn, n);
    for (auto &t : threads) t.join();
    const int ok = argc > 2 || refused(static_cast<size_t>(1) << 60); // mimalloc would abort
    std::string text(1000, 'x');
    auto shared = std::make_shared<std::string>(text + "y");
    std::printf("%zu %d\n", shared->size(), ok);
    for (void *p : at_end.kept) unmake(0, p, 50); // before it is too late to count
    at_end.kept.clear();
    std::printf("site made %p %p %lu %lu %lu %lu\n", static_cast<const void *>(__start_site_made),
                static_cast<const void *>(__stop_site_made), static_cast<unsigned long>(allocs),
                static_cast<unsigned long>(bytes), static_cast<unsigned long>(frees),
                static_cast<unsigned long>(freed));
    std::fflush(stdout);
    std::_Exit(ok ? 0 : 1);
}
