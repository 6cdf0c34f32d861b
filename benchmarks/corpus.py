"""A synthetic operations handbook, the same on every machine.

``Corpus`` makes chunks and queries from a seed, one document at a time, so that 100,000 chunks
need no more memory than ten. Word frequencies fall as 1/rank, half of a text's words come from
its topic, and vectors gather around topics, so that both legs of a search have something to rank.
The vectors stand for no model: this corpus measures time, not quality.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from knowport.core.compose import search_text, text_hash
from knowport.model import Chunk, IndexedChunk, Matrix, Vector

DIMENSION = 384
CHUNKS_PER_DOCUMENT = 10
CATEGORIES = ("mysql", "redis", "kubernetes", "network", "storage", "monitoring")
KB_SCOPE = "default"
SOURCE = "bench"
MIN_CHARS, MAX_CHARS = 150, 500
CHUNKS_PER_TOPIC = 200

# Streams of random numbers that never meet: (seed, stream, number).
_TOPICS, _DOCUMENTS, _QUERIES = range(3)

_CHINESE_TERMS = """
数据库 主从切换 主从延迟 复制 备份 恢复 回滚 事务 死锁 锁等待 慢查询 索引 连接池 连接数 超时
重试 限流 熔断 降级 扩容 缩容 容器 集群 节点 调度 镜像 挂载 磁盘 磁盘空间 内存 内存泄漏 网络
网络抖动 丢包 延迟 带宽 防火墙 负载均衡 域名解析 证书 过期 权限 鉴权 审计 日志 告警 监控 指标
阈值 巡检 演练 预案 值班 升级 变更 发布 灰度 故障 排查 定位 根因 复盘 影响 范围 用户 请求 响应
服务 实例 进程 线程 队列 消息 积压 消费 生产 分区 副本 选举 心跳 快照 归档 清理 压缩 加密 校验
一致性 可用性 容量 水位 峰值 流量 缓存 穿透 击穿 雪崩 淘汰 持久化 哨兵 分片 迁移 割接 停机 维护
窗口 通知 确认 处理 步骤 执行 命令 参数 配置 修改 重启 检查 确保 如果 那么 需要 可以 已经 没有
出现 之后 之前 首先 然后 最后 注意 建议 避免 原因 现象 解决 方法 结果 正常 异常 失败 成功
"""
_CHINESE_SUBJECTS = """
主库 从库 集群 节点 磁盘 内存 网络 日志 缓存 队列 索引 证书 镜像 容器 分片 副本 连接 线程 事务
快照
"""
_CHINESE_ACTIONS = """
监控 告警 检查 清理 切换 扩容 迁移 恢复 备份 配置 重启 排查 同步 校验 回收 升级 限制 统计 分析
隔离 过期 超时 异常 丢失 堆积 抖动
"""
_CHINESE_FIRST = "主从读写冷热新旧内外上下前后左右高低单双多全半总分子父本远近快慢大小"
_CHINESE_LAST = "库表机房网卡盘区段页块键值域层级组群端口链路池线栈堆帧包"
_ENGLISH_TERMS = """
the to and of in is for on with after before when if then not check restart verify run set
server database replica primary failover latency timeout connection pool lock wait query index
backup restore snapshot volume disk memory cpu network packet firewall proxy gateway ingress pod
node cluster deployment container image registry secret config certificate token permission
audit log alert metric threshold dashboard incident runbook rollback upgrade migration shard
partition consumer producer broker offset queue cache eviction sentinel heartbeat election
quorum leader follower throughput bandwidth retry backoff MySQL Redis Kubernetes Kafka Nginx
Prometheus Grafana etcd Docker Linux PostgreSQL systemd kubectl mysqldump iptables
innodb_lock_wait_timeout max_connections maxmemory-policy OOMKilled CrashLoopBackOff
ImagePullBackOff NXDOMAIN ECONNREFUSED deadlock slow error
"""
_ENGLISH_PREFIXES = "re un pre over sub inter auto multi co de dis micro"
_ENGLISH_ROOTS = """
cache route bind mount sync load scale shard queue parse stream tract flush link port spawn
batch chain claim trace probe patch store serve fetch drain fence graph issue block
"""
_ENGLISH_SUFFIXES = "s er ing able ment ation or less"


def _chinese_words() -> tuple[str, ...]:
    phrases = [a + b for a, b in product(_CHINESE_SUBJECTS.split(), _CHINESE_ACTIONS.split())]
    pairs = [a + b for a, b in product(_CHINESE_FIRST, _CHINESE_LAST)]
    return tuple(dict.fromkeys([*_CHINESE_TERMS.split(), *_spread(phrases, pairs)]))[:1_500]


def _english_words() -> tuple[str, ...]:
    prefixes = ["", *_ENGLISH_PREFIXES.split()]
    suffixes = ["", *_ENGLISH_SUFFIXES.split()]
    made = map("".join, product(prefixes, _ENGLISH_ROOTS.split(), suffixes))
    return tuple(dict.fromkeys([*_ENGLISH_TERMS.split(), *made]))[:3_000]


def _spread(some: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Both lists in one order, so that neither has all the frequent ranks."""
    for position in range(max(len(some), len(others))):
        yield from some[position : position + 1]
        yield from others[position : position + 1]


CHINESE = _chinese_words()
ENGLISH = _english_words()


@dataclass(frozen=True, slots=True)
class Page:
    """One document: its chunks with all that is stored of them."""

    number: int
    title: str
    category: str
    chunks: tuple[IndexedChunk, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A query with its vector, which lies near the vector of the chunk ``target``."""

    text: str
    vector: Vector
    target: str


class Corpus:
    """``size`` chunks in documents of ten; equal arguments give equal texts and vectors."""

    def __init__(self, size: int, *, seed: int = 20_250_101) -> None:
        self.size = size
        self._seed = seed
        topics = max(12, size // CHUNKS_PER_TOPIC)
        self._centres = _unit(self._random(_TOPICS, 0).standard_normal((topics, DIMENSION)))

    def pages(self) -> Iterator[Page]:
        for number in range(-(-self.size // CHUNKS_PER_DOCUMENT)):
            yield self.page(number)

    def chunks(self) -> Iterator[IndexedChunk]:
        for page in self.pages():
            yield from page.chunks

    def page(self, number: int) -> Page:
        """The document of that number, made anew."""
        random = self._random(_DOCUMENTS, number)
        topic = int(random.integers(len(self._centres)))
        category = CATEGORIES[topic % len(CATEGORIES)]
        words = _Words(random, topic)
        title = f"{words.chinese(2)} {words.english(1)} {number}"
        count = min(CHUNKS_PER_DOCUMENT, self.size - number * CHUNKS_PER_DOCUMENT)
        vectors = self._vectors(random, topic, count)
        chunks, start = [], 0
        for index in range(count):
            heading = f"{words.chinese(2)} {words.code()}" if index % 3 else words.english(3)
            content = words.text()
            chunk = Chunk(
                doc_id=f"{SOURCE}/{category}/{number:06}.md",
                chunk_index=index,
                content=content,
                title=title,
                breadcrumb=f"{title} > {heading}",
                start=start,
                end=start + len(content),
            )
            start = chunk.end + 2
            chunks.append(
                IndexedChunk(
                    chunk=chunk,
                    source=SOURCE,
                    category=category,
                    kb_scope=KB_SCOPE,
                    content_hash=text_hash(content),
                    search_text=search_text(chunk),
                    vector=vectors[index],
                )
            )
        return Page(number, title, category, tuple(chunks))

    def queries(self, count: int) -> Iterator[Query]:
        """Queries of 2 to 8 words: Chinese, English, mixed, or around a code, in turn.

        Half of the words stand in the target chunk, the others anywhere.
        """
        random = self._random(_QUERIES, 0)
        pages = -(-self.size // CHUNKS_PER_DOCUMENT)
        for number in range(count):
            page = self.page(int(random.integers(pages)))
            target = page.chunks[int(random.integers(len(page.chunks)))]
            words = _Words(random, int(random.integers(len(self._centres))))
            noise = _unit(random.standard_normal(DIMENSION))
            yield Query(
                text=words.query(target.chunk.content, number % 4),
                vector=_unit(target.vector + 0.6 * noise),
                target=f"{target.chunk.doc_id}#chunk-{target.chunk.chunk_index}",
            )

    def _vectors(self, random: np.random.Generator, topic: int, count: int) -> Matrix:
        """Chunks lie around their document, which lies near its topic: cosines 0.4 to 0.7."""
        document = self._centres[topic] + 0.8 * _unit(random.standard_normal(DIMENSION))
        return _unit(document + 0.8 * _unit(random.standard_normal((count, DIMENSION))))

    def _random(self, stream: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, stream, number])


class _Words:
    """Draws words: one half from the whole vocabulary by 1/rank, one half from a topic's turn."""

    def __init__(self, random: np.random.Generator, topic: int) -> None:
        self._random = random
        self._topic = topic
        self._dice: list[float] = []

    def chinese(self, count: int) -> str:
        return "".join(self._word(CHINESE, _CHINESE_RANKS) for _ in range(count))

    def english(self, count: int) -> str:
        return " ".join(self._word(ENGLISH, _ENGLISH_RANKS) for _ in range(count))

    def code(self) -> str:
        number = int(self._die() * 90_000)
        forms = (
            f"ERROR {1_000 + number % 900}",
            f"ORA-{number:05}",
            f"0x{number * 7_919:08X}",
            f"{ENGLISH[number % 900].lower()}_{ENGLISH[number % 700].lower()}",
            f"10.{number % 200}.{number % 250}.{number % 240}",
            f"JIRA-{number}",
        )
        return forms[int(self._die() * len(forms))]

    def text(self) -> str:
        """150 to 500 characters: mostly Chinese, mostly English, or both."""
        wanted = MIN_CHARS + int(self._die() * (MAX_CHARS + 1 - MIN_CHARS))
        chinese_share = (0.85, 0.85, 0.55, 0.1)[int(self._die() * 4)]
        text = ""
        while len(text) < wanted:
            text += self._sentence(chinese_share)
        return text[:wanted].strip().ljust(MIN_CHARS, "。")

    def known_chinese(self, content: str) -> str:
        """Four characters of the text if it is Chinese where the dice fall, else another word."""
        start = int(self._die() * max(1, len(content) - 4))
        found = content[start : start + 4]
        return found if all("\u4e00" <= c <= "\u9fff" for c in found) else self.chinese(1)

    def known_english(self, content: str) -> str:
        """One word or code of the text."""
        known = [word.strip(".,，。") for word in content.split() if word.isascii()]
        return known[int(self._die() * len(known))] if known else self.english(1)

    def query(self, content: str, kind: int) -> str:
        half = 1 + int(self._die() * 4)
        if kind == 0:
            return "".join(self.known_chinese(content) for _ in range(half)) + self.chinese(half)
        if kind == 1:
            known = [self.known_english(content) for _ in range(half)]
            return " ".join([*known, self.english(half)])
        if kind == 2:
            known_terms = f"{self.known_english(content)} {self.known_chinese(content)}"
            return f"{known_terms}{self.chinese(half)}"
        return f"{self.code()} {self.known_english(content)} {self.known_chinese(content)}"

    def _sentence(self, chinese_share: float) -> str:
        is_chinese, has_code = self._die() < chinese_share, self._die() < 0.3
        code = f" {self.code()}" if has_code else ""
        length = 4 + int(self._die() * 8)
        if is_chinese:
            return f"{self.chinese(length)}{code}，{self.english(1)} {self.chinese(3)}。"
        return f"{self.english(length)}{code}. "

    def _word(self, vocabulary: Sequence[str], ranks: Sequence[float]) -> str:
        rank = bisect(ranks, self._die())
        if self._die() < 0.5:
            rank = (rank + 37 * self._topic) % len(vocabulary)
        return vocabulary[rank]

    def _die(self) -> float:
        """A number in 0..1; drawn by hundreds, since one at a time is slow."""
        if not self._dice:
            self._dice = self._random.random(512).tolist()
        return self._dice.pop()


def _unit(vectors: np.ndarray) -> Matrix:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def _cumulative(count: int) -> list[float]:
    weights = 1.0 / np.arange(1, count + 1)
    return np.cumsum(weights / weights.sum())[:-1].tolist()


_CHINESE_RANKS = _cumulative(len(CHINESE))
_ENGLISH_RANKS = _cumulative(len(ENGLISH))
