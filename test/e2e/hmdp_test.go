package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"seckill/internal/app"
	"seckill/test/e2e/rig"
)

// browser sends requests as the pages of hm-dianping do: with a bare token, a timeout of 2 s, and the result taken from
// the status and the envelope.
type browser struct {
	t     *testing.T
	url   string
	token string
}

// Errors that a page shows, besides a refusal.
var (
	errPageTimeout = errors.New("the page timed out")
	errLogin       = errors.New("请先登录") // the page redirects to its login
	errServer      = errors.New("服务器异常")
)

// refusal is an error message from the envelope.
type refusal string

func (r refusal) Error() string { return string(r) }

// call sends a request and returns the data of the envelope, or nil if there is none.
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
		return b.timedOut(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return b.timedOut(err)
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

// timedOut requires that err is a timeout and returns errPageTimeout.
func (b *browser) timedOut(err error) (any, http.Header, error) {
	b.t.Helper()
	var timeout net.Error
	require.ErrorAs(b.t, err, &timeout)
	require.True(b.t, timeout.Timeout(), "%v", err)
	return nil, nil, errPageTimeout
}

// login logs in with the code that the demo mode returns.
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

// at returns the browser with the same token at another server.
func (b browser) at(p *rig.Server) *browser { b.url = p.URL; return &b }

// retryTimeouts repeats a test until it succeeds without errPageTimeout or errServer, which can occur on a busy machine: the
// server gives up shortly before the page does.
func retryTimeouts(t *testing.T, scene func() error) {
	t.Helper()
	rig.Eventually(t, "no page timeout", func() bool {
		err := scene()
		if errors.Is(err, errPageTimeout) || errors.Is(err, errServer) {
			rig.Forgive(rig.ForgivenPage)
			return false
		}
		require.NoError(t, err)
		return true
	})
}

// publish publishes a running sale through the compatible route and returns its id.
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

// canBuy reports whether shop-detail.html shows an enabled button for a voucher.
func (b *browser) canBuy(id string) (bool, error) {
	b.t.Helper()
	vouchers, _, err := b.call(http.MethodGet, "/voucher/list/77", nil)
	if err != nil {
		return false, err
	}
	shanghai, err := time.LoadLocation("Asia/Shanghai") // the browser's time zone
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
	return false, errors.New("the voucher is not listed")
}

func (b *browser) buy(voucher string) (string, error) {
	b.t.Helper()
	id, _, err := b.call(http.MethodPost, "/voucher-order/seckill/"+voucher, nil)
	if err != nil {
		return "", err
	}
	return id.(string), nil
}

// TestHmdpPurchase publishes a sale of one unit, buys it, tries to buy it twice and as another user.
func TestHmdpPurchase(t *testing.T) {
	t.Parallel()
	rig.Core("lock/embedded").Full("lock/mariadb", "queue/mariadb").Each(t, func(t *testing.T, s *rig.Stack) {
		p := s.Serve(t)
		one, two, admin := (&browser{t: t}).at(p), (&browser{t: t}).at(p), (&browser{t: t}).at(p)
		for phone, b := range map[string]*browser{"13800000001": one, "13800000002": two, app.DemoAdmin: admin} {
			retryTimeouts(t, func() error { return b.login(phone) })
		}
		retryTimeouts(t, func() error {
			sale, err := admin.publish(1)
			if err != nil {
				return err
			}
			if shown, err := one.canBuy(sale); err != nil {
				return err
			} else if !shown {
				return errors.New("the page shows no enabled button")
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
					return errors.Join(errors.New("expected "+step.want.Error()), err)
				}
			}
			token := p.LoginToken(t, "13800000001")
			rig.RequireOrdered(t, p, token, id)
			return nil
		})
		s.Verify(t)
	})
}
