/* ml.c - machine learning of programs: see api.h. */
#include "analyze/ml.h"
#include "base/json.h"
#include "model/model.h"
#include "present/report/ml.h"
#include "serve/api/api.h"

int sonde_api_ml(const struct sonde_model *m, struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    struct sonde_ml *ml;
    const int rc = sonde_ml_of_model(m, &ml);
    if (rc) return rc;
    sonde_json_open(out, '{');
    sonde_json_time(out, "time", m->now_s);
    sonde_ml_json(ml, out);
    if (!ml) sonde_json_str(out, "ml", NULL);
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
    sonde_ml_destroy(ml);
    return out->error;
}
