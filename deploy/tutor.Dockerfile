# The tutor: pages, books, accounts. It has no model; the engine beside it does.
FROM python:3.11-slim

WORKDIR /opt/deepedu
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY src ./src
RUN pip install --no-cache-dir --constraint constraints.txt ".[server,postgres]"

# Documents and the school's keys lie in /data; nobody else needs to read them.
RUN useradd --create-home --uid 8400 deepedu && install --directory --owner deepedu --mode 0700 /data
USER deepedu
VOLUME /data
EXPOSE 8400
CMD ["deepedu", "--data", "/data", "serve", "--host", "0.0.0.0"]
