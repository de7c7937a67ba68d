#!/usr/bin/env bash
# What `make install` leaves behind can be used by others: a consumer is compiled, linked and run
# through pkg-config (shared and static) and through find_package.
. "$(dirname "$0")/common.sh"
step() { "$@" >"$scratch/out" 2>&1 || { complain "$*:" "$(tail -n 30 "$scratch/out")"; finish; }; }

prefix=$scratch/root/opt/sonde
step env DESTDIR="$scratch/root" cmake --install "$SONDE_BUILD" --prefix /opt/sonde
library=$(dirname "$(find "$prefix" -name libsonde.so)")
for file in "$prefix/bin/sonde" "$prefix/include/sonde/sonde.h" "$library/libsonde.a" \
    "$library/sonde/libsonde_preload.so" "$library/pkgconfig/sonde.pc" "$library/cmake/sonde/sondeConfig.cmake"; do
    [ -e "$file" ] || complain "cmake --install left no ${file#"$prefix/"}"
done

# The Python package, where Debian's Python looks below /usr/local.
package=$(find "$prefix/lib" -path '*/dist-packages/sonde')
said=$(PYTHONPATH=$(dirname "$package") SONDE_DIR=$scratch/segments /usr/bin/python3 -B -c '
import sonde
sonde.counter("consumer_total").add(2)
print(sonde.__file__, sonde.counter("consumer_total").value)' 2>&1) || complain "the installed Python package: $said"
[ "$said" = "$package/__init__.py 2" ] || complain "the installed Python package says '$said'"

cat >"$scratch/main.c" <<'END'
#include <sonde/sonde.h>
#include <stdio.h>
int main(void)
{
    SONDE_SCOPE("main");
    sonde_counter_add(sonde_counter("consumer_total", "One."), 1);
    return sonde_open(NULL) != 0 || puts(SONDE_VERSION) < 0;
}
END
cat >"$scratch/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(sonde 0.1 REQUIRED)
foreach(kind IN ITEMS static shared)
    add_executable(consumer_${kind} main.c)
    target_link_libraries(consumer_${kind} PRIVATE sonde::${kind})
endforeach()
END

export SONDE_DIR=$scratch/segments
run() {
    local said
    said=$(LD_LIBRARY_PATH=$library "$1" 2>&1) || { complain "${1##*/} fails: $said"; return; }
    [ "$said" = "$version" ] || complain "${1##*/} runs against version '$said', installed is '$version'"
}

export PKG_CONFIG_PATH=$library/pkgconfig
version=$(pkg-config --modversion sonde)
read -ra flags < <(pkg-config --cflags --libs sonde)
read -ra flags_static < <(pkg-config --static --cflags --libs sonde)
step gcc -Wall -Werror "$scratch/main.c" -o "$scratch/by_pkg_config" "${flags[@]}"
run "$scratch/by_pkg_config"
step gcc -Wall -Werror "$scratch/main.c" -o "$scratch/by_pkg_config_static" -static "${flags_static[@]}"
run "$scratch/by_pkg_config_static"

step cmake -G Ninja -S "$scratch" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix"
step cmake --build "$scratch/build"
run "$scratch/build/consumer_static"
run "$scratch/build/consumer_shared"

# The build folder can be used the same way, without installing.
step cmake -G Ninja -S "$scratch" -B "$scratch/build2" -Dsonde_DIR="$SONDE_BUILD"
step cmake --build "$scratch/build2"
run "$scratch/build2/consumer_static"
read -ra flags < <(PKG_CONFIG_PATH=$SONDE_BUILD pkg-config --cflags --libs sonde)
step gcc -Wall -Werror "$scratch/main.c" -o "$scratch/by_build_folder" "${flags[@]}"
said=$("$scratch/by_build_folder" 2>&1)
[ "$said" = "$version" ] || complain "through the sonde.pc of the build folder: '$said'"
finish
