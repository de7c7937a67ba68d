/* kinds.c - names of routes, and which path asks for what; see front.h. */
#include <string.h>

#include "base/array.h"
#include "front/front.h"

const char *sonde_front_route_name(enum sonde_front_route route)
{
    static const char *const names[] = {
#define SONDE__X(id, text) [SONDE_FRONT_##id] = text,
        SONDE_FRONT_ROUTES(SONDE__X)
#undef SONDE__X
    };
    return names[route];
}

/* Ends of paths: servers are mounted under prefixes of all kinds. The first that fits counts. */
static const struct { const char *end; enum sonde_front_route route; } ends[] = {
    { "/chat/completions", SONDE_FRONT_CHAT },
    { "/completions", SONDE_FRONT_COMPLETIONS },
    { "/responses", SONDE_FRONT_RESPONSES },
    { "/v1/messages", SONDE_FRONT_MESSAGES },
    { "/completion", SONDE_FRONT_LLAMA_COMPLETION },
    { "/infill", SONDE_FRONT_LLAMA_COMPLETION },
    { "/api/chat", SONDE_FRONT_OLLAMA_CHAT },
    { "/api/generate", SONDE_FRONT_OLLAMA_GENERATE },
    { "/api/embed", SONDE_FRONT_OLLAMA_EMBED },
    { "/api/embeddings", SONDE_FRONT_OLLAMA_EMBED },
    { "/embeddings", SONDE_FRONT_EMBEDDINGS },
    { "/embedding", SONDE_FRONT_EMBEDDINGS },
    { "/generate", SONDE_FRONT_TGI_GENERATE },
    { "/generate_stream", SONDE_FRONT_TGI_GENERATE },
};

enum sonde_front_route sonde_front_route_of(const char *method, const char *path)
{
    if (strcmp(method, "POST") != 0) return SONDE_FRONT_OTHER;
    size_t len = strlen(path);
    if (len > 1 && path[len - 1] == '/') len--;
    for (size_t i = 0; i < SONDE_COUNT(ends); i++) {
        const size_t n = strlen(ends[i].end);
        if (n <= len && memcmp(path + len - n, ends[i].end, n) == 0) return ends[i].route;
    }
    return SONDE_FRONT_OTHER;
}
