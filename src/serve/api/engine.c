/* engine.c - devices, pools and tokenizers of engines: see api.h. */
#include "analyze/engine.h"
#include "model/model.h"
#include "present/report/engine.h"
#include "serve/api/api.h"

int sonde_api_engine(const struct sonde_model *m, struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    struct sonde_engine *e;
    const int rc = sonde_engine_of_model(m, &e);
    if (rc) return rc;
    sonde_engine_answer(e, m->now_s, out);
    sonde_engine_destroy(e);
    return out->error;
}
