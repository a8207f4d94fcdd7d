# The locked requirements, installed and compiled, without what nothing here reads: tests, sources of compiled modules and
# stubs of their types, and of Plotly all but its JavaScript. The second stage takes only the result.
FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /srv
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/railyard \
 && python -m pip --python /opt/railyard/bin/python install --require-hashes --only-binary :all: -r requirements.lock \
 && find /opt/railyard -type d \( -name tests -o -name test \) -path '*/site-packages/*' -prune -exec rm -rf {} + \
 && find /opt/railyard/lib -type f -name '*.[ach]' -delete -o -name '*.py[ix]' -delete -o -name '*.pxd' -delete \
 && rm -rf /opt/railyard/share \
 && cd /opt/railyard/lib/python3*/site-packages \
 && rm -rf _plotly_utils narwhals \
 && find plotly -type f ! -name plotly.min.js -delete \
 && find /opt/railyard/lib -type d -empty -delete
COPY app app
RUN /opt/railyard/bin/python -m compileall -q app

FROM python:3.13-slim
ENV PATH=/opt/railyard/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1 \
    RAILYARD_HOST=0.0.0.0 \
    RAILYARD_PORT=8000
WORKDIR /srv
COPY --from=build /opt/railyard /opt/railyard
COPY LICENSE ./
COPY static static
COPY templates templates
COPY --from=build /srv/app app
USER 65532:65532
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import http.client as h, os; c = h.HTTPConnection('127.0.0.1', int(os.environ['RAILYARD_PORT']), timeout=2); c.request('GET', '/readyz'); raise SystemExit(c.getresponse().status != 200)"]
CMD ["python", "-m", "app", "serve"]
