/* llama_host: llama_drive as a plugin of a program that is not linked to llama.cpp. What is loaded
 * by dlopen with RTLD_LOCAL is not found where the program's own libraries are: node's addons and
 * Python's modules bring llama.cpp into a process this way. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = dlopen(DRIVE_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        fprintf(stderr, "llama_host: %s\n", dlerror());
        return 1;
    }
    int (*drive)(int, char **) = (int (*)(int, char **))dlsym(plugin, "drive_main");
    if (!drive) {
        fprintf(stderr, "llama_host: %s\n", dlerror());
        return 1;
    }
    return drive(argc, argv);
}
