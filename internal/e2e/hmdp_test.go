package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"seckill/internal/app"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser does what the pages of hm-dianping do: they read the token once, send it as it is, give up after 2 s, and
// tell by the envelope and the status what to show.
type browser struct {
	t     *testing.T
	url   string
	token string
}

// What a page makes of an answer that is no success, beside the message of a refusal.
var (
	errGaveUp = errors.New("the page gave up")
	errLogin  = errors.New("请先登录") // and the page goes to its login
	errServer = errors.New("服务器异常")
)

// refusal is a message that the page shows as it is.
type refusal string

func (r refusal) Error() string { return string(r) }

// call returns data, or nil where the page would see undefined.
func (b *browser) call(method, path string, body any) (any, http.Header, error) {
	b.t.Helper()
	var payload io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(b.t, err)
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, payload)
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/json")
	if b.token != "" {
		req.Header.Set("authorization", b.token)
	}
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return b.lost(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return b.lost(err)
	case res.StatusCode == http.StatusUnauthorized:
		require.Empty(b.t, text)
		return nil, nil, errLogin
	}
	var envelope struct {
		Success  bool
		ErrorMsg string
		Data     any
	}
	require.NoError(b.t, json.Unmarshal(text, &envelope), "%s %s: %s", method, path, text)
	switch {
	case res.StatusCode != http.StatusOK:
		return nil, nil, errServer
	case !envelope.Success:
		return nil, nil, refusal(envelope.ErrorMsg)
	}
	return envelope.Data, res.Header, nil
}

// lost tells an answer that did not come in time from a server that is not there.
func (b *browser) lost(err error) (any, http.Header, error) {
	b.t.Helper()
	var timeout net.Error
	require.ErrorAs(b.t, err, &timeout)
	require.True(b.t, timeout.Timeout(), "%v", err)
	return nil, nil, errGaveUp
}

// login is the login page, with the code that the demo tells.
func (b *browser) login(phone string) error {
	b.t.Helper()
	_, header, err := b.call(http.MethodPost, "/user/code?phone="+phone, nil)
	if err != nil {
		return err
	}
	token, _, err := b.call(http.MethodPost, "/user/login", map[string]string{"phone": phone, "code": header.Get("X-Demo-Code")})
	if err == nil {
		b.token = token.(string)
	}
	return err
}

// at is the same page with the same token at another server.
func (b browser) at(p *process) *browser { b.url = p.url; return &b }

// patiently plays a scene until nobody in it gave up: on a busy machine 2 s are little.
func patiently(t *testing.T, scene func() error) {
	t.Helper()
	eventually(t, "the page gives up each time", func() bool {
		err := scene()
		if !errors.Is(err, errGaveUp) {
			require.NoError(t, err)
		}
		return err == nil
	})
}

// publish publishes a sale of the course's kind, which runs, and returns its id.
func (b *browser) publish(stock int) (string, error) {
	b.t.Helper()
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	require.NoError(b.t, err)
	at := func(d time.Duration) string { return time.Now().Add(d).In(shanghai).Format("2006-01-02T15:04:05") }
	id, _, err := b.call(http.MethodPost, "/voucher/seckill", map[string]any{
		"shopId": 77, "title": "100元代金券", "subTitle": "周一至周五均可使用", "rules": "全场通用", "payValue": 8000, "actualValue": 10000,
		"type": 1, "stock": stock, "beginTime": at(-time.Hour), "endTime": at(time.Hour),
	})
	if err != nil {
		return "", err
	}
	return id.(string), nil
}

// canBuy is how shop-detail.html reads a voucher of the list: whether there is a button that works.
func (b *browser) canBuy(id string) (bool, error) {
	b.t.Helper()
	vouchers, _, err := b.call(http.MethodGet, "/voucher/list/77", nil)
	if err != nil {
		return false, err
	}
	shanghai, err := time.LoadLocation("Asia/Shanghai") // where the browser is
	require.NoError(b.t, err)
	moment := func(v any) time.Time {
		at, err := time.ParseInLocation("2006-01-02T15:04:05", v.(string), shanghai)
		require.NoError(b.t, err)
		return at
	}
	for _, item := range vouchers.([]any) {
		v := item.(map[string]any)
		if v["id"] == id {
			return v["type"].(float64) != 0 && v["stock"].(float64) >= 1 &&
				!moment(v["beginTime"]).After(time.Now()) && !moment(v["endTime"]).Before(time.Now()), nil
		}
	}
	return false, errors.New("the voucher is not shown")
}

func (b *browser) buy(voucher string) (string, error) {
	b.t.Helper()
	id, _, err := b.call(http.MethodPost, "/voucher-order/seckill/"+voucher, nil)
	if err != nil {
		return "", err
	}
	return id.(string), nil
}

// TestCoursePages: publish, log in, look, buy, press again, and another who comes too late, in every lane.
func TestCoursePages(t *testing.T) {
	eachLane(t, false, func(t *testing.T, s *stack) {
		p := s.serve(t, "")
		one, two, admin := (&browser{t: t}).at(p), (&browser{t: t}).at(p), (&browser{t: t}).at(p)
		for phone, b := range map[string]*browser{"13800000001": one, "13800000002": two, app.DemoAdmin: admin} {
			patiently(t, func() error { return b.login(phone) })
		}
		patiently(t, func() error {
			sale, err := admin.publish(1)
			if err != nil {
				return err
			}
			if shown, err := one.canBuy(sale); err != nil {
				return err
			} else if !shown {
				return errors.New("the page does not offer it")
			}
			id, err := one.buy(sale)
			if err != nil {
				return err
			}
			require.Regexp(t, `^[0-9]{15,}$`, id)
			for _, step := range []struct {
				b    *browser
				want error
			}{{one, refusal("用户已经购买过一次了")}, {two, refusal("库存不足")}} {
				if _, err := step.b.buy(sale); !errors.Is(err, step.want) {
					return errors.Join(errors.New("instead of "+step.want.Error()), err)
				}
			}
			token, err := p.Login(t.Context(), "13800000001")
			require.NoError(t, err)
			requireOrdered(t, p, token, id)
			return nil
		})
		s.verify(t)
	})
}

// TestPageSessionOutlivesAll: Redis flushed, a server restarted and killed, another server; and a logout that ends it
// on all of them, for good.
func TestPageSessionOutlivesAll(t *testing.T) {
	each(t, true, func(t *testing.T, s *stack) {
		addr := freeAddr(t)
		one, two := s.serve(t, addr), s.serve(t, "")
		b := (&browser{t: t}).at(one)
		patiently(t, func() error { return b.login("13800000001") })
		me := func(b *browser) (err error) { _, _, err = b.call(http.MethodGet, "/user/me", nil); return err }
		worksOn := func(p *process) { t.Helper(); patiently(t, func() error { return me(b.at(p)) }) }
		worksOn(one)
		worksOn(two)
		require.NoError(t, s.flush())
		worksOn(one)
		worksOn(two)
		require.Zero(t, one.stop(t))
		one = s.serve(t, addr)
		worksOn(one)
		one.kill()
		one = s.serve(t, addr)
		worksOn(one)

		patiently(t, func() error { _, _, err := b.at(two).call(http.MethodPost, "/user/logout", nil); return err })
		for _, p := range []*process{two, one} {
			eventually(t, "logged out", func() bool { return errors.Is(me(b.at(p)), errLogin) })
		}
		one.kill()
		one = s.serve(t, addr)
		eventually(t, "still logged out", func() bool {
			err := me(b.at(one))
			require.Condition(t, func() bool { return errors.Is(err, errLogin) || errors.Is(err, errGaveUp) }, "%v", err)
			return errors.Is(err, errLogin)
		})
	})
}

// TestPagesWhileFrozen: a dependency that does not answer, and the page has an answer before it gives up.
func TestPagesWhileFrozen(t *testing.T) {
	for _, tc := range []struct {
		lane, name string
		pick       func(*stack) freezer
		admitted   bool
	}{
		{"lock", "mariadb", func(s *stack) freezer { return s.mariadb }, false},
		{"lock", "redis", func(s *stack) freezer { return s.redis }, false},
		{"batch", "mariadb", func(s *stack) freezer { return s.mariadb }, false},
		{"queue", "mariadb", func(s *stack) freezer { return s.mariadb }, true},
		{"queue", "redis", func(s *stack) freezer { return s.redis }, false},
	} {
		t.Run(tc.lane+"/"+tc.name, func(t *testing.T) {
			t.Parallel()
			s := realStack(t).in(tc.lane)
			p := s.serve(t, "")
			b := (&browser{t: t}).at(p)
			patiently(t, func() error { return b.login("13800000001") })
			warm, sale := p.sale(t, 1), p.sale(t, 10)
			patiently(t, func() error { // the gates are loaded, the sales are known
				_, err := b.buy(warm)
				if strings.HasPrefix(errorText(err), "用户已经") {
					return nil
				}
				return err
			})
			other := s.tokens(t, 1)[0]
			_, err := p.Place(t.Context(), other, sale)
			require.NoError(t, err)
			require.NoError(t, tc.pick(s).Pause())
			patiently(t, func() error {
				switch _, err := b.buy(sale); {
				case tc.admitted && err == nil, !tc.admitted && errors.Is(err, errServer):
					return nil
				case tc.admitted && strings.HasPrefix(errorText(err), "用户已经"): // of a try that gave up
					return nil
				case !tc.admitted && errors.Is(err, refusal("重复下单")): // likewise
					return errGaveUp
				default:
					return errors.Join(errors.New("the page hears something else"), err)
				}
			})
			require.NoError(t, tc.pick(s).Resume())
			requireReady(t, p)
			eventually(t, "whoever presses again hears how it ended", func() bool {
				_, err := b.buy(sale)
				return err == nil || errors.Is(err, refusal("用户已经购买过一次了"))
			})
			if tc.lane == "queue" {
				requireSettled(t, s)
			}
			s.verify(t)
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
