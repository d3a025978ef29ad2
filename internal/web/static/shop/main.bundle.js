var __defProp=Object.defineProperty;var __export=(target,all2)=>{for(var name2 in all2)__defProp(target,name2,{get:all2[name2],enumerable:true})};function h(tag,props,...children){const el=document.createElement(tag);for(const[name2,value]of Object.entries(props??{})){
if(name2.startsWith("on"))el.addEventListener(name2.slice(2),value);else attr(el,name2,value)}el.append(...children.flat().
filter(child=>child!=null));return el}var SVG="http://www.w3.org/2000/svg";function svg(tag,attributes,...children){const el=document.
createElementNS(SVG,tag);for(const[name2,value]of Object.entries(attributes??{}))el.setAttribute(name2,value);el.append(
...children);return el}function attr(el,name2,value){if(value==null||value===false)el.removeAttribute(name2);else if(el.
getAttribute(name2)!==String(value))el.setAttribute(name2,value===true?"":value)}function text(el,value){if(el.textContent!==
value)el.textContent=value}function show(el,visible){if(el.hidden===Boolean(visible))el.hidden=!visible}function focusPage(){
const first=document.querySelector("main [data-first]")??document.querySelector("main h1");first?.focus({preventScroll:true})}
var ids=0;function newID(what){return`${what}-${++ids}`}var i18n_exports={};__export(i18n_exports,{choose:()=>choose,clockTime:()=>clockTime,duration:()=>duration,has:()=>has,hour:()=>hour,
language:()=>language,languageOf:()=>languageOf,languages:()=>languages,left:()=>left,moment:()=>moment,money:()=>money,
number:()=>number,onLanguage:()=>onLanguage,percent:()=>percent,stamp:()=>stamp,t:()=>t,use:()=>use,zone:()=>zone});var PLACES={BHD:3,BIF:0,CLF:4,CLP:0,DJF:0,GNF:0,IQD:3,ISK:0,JOD:3,JPY:0,KMF:0,KRW:0,KWD:3,LYD:3,OMR:3,PYG:0,RWF:0,TND:3,
UGX:0,UYI:0,UYW:4,VND:0,VUV:0,XAF:0,XOF:0,XPF:0};var digits=currency=>PLACES[currency]??2;function topic(){const listeners=new Set;return{on(listener){listeners.add(listener);return()=>listeners.delete(listener)},
emit(...args){for(const listener of[...listeners])listener(...args)}}}function sleep(ms,signal){return new Promise(resolve=>{
if(signal?.aborted)return resolve();const timer3=setTimeout(done2,ms);function done2(){clearTimeout(timer3);signal?.removeEventListener(
"abort",done2);resolve()}signal?.addEventListener("abort",done2)})}function backoff(n2,first,most){const full2=Math.min(
most,first*2**n2);return full2/2+Math.random()*full2/2}var REMEMBERED="seckill.language";var changes=topic();var dictionaries={};var current="en";var languages={en:"English",zh:"\
中文"};function use(texts){dictionaries=texts;const preferred=[remembered(),...navigator.languages??[navigator.language]];
select(preferred.map(l2=>(l2??"").slice(0,2).toLowerCase()).find(l2=>l2 in texts)??"en")}function choose(language2){select(
language2);try{localStorage.setItem(REMEMBERED,language2)}catch{}changes.emit()}var language=()=>current;var onLanguage=changes.
on;function select(language2){current=language2;document.documentElement.lang=language2==="zh"?"zh-CN":"en"}function remembered(){
try{return localStorage.getItem(REMEMBERED)}catch{return null}}var has=key=>key in dictionaries[current];function t(key,values={}){
const text2=dictionaries[current][key];if(text2===void 0)throw new Error(`no text for ${key} in ${current}`);return text2.
replace(/\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g,(_2,name2,one2,more3)=>{if(one2===void 0)return values[name2];return String(
values[name2])==="1"?one2:more3})}var locale=()=>current==="zh"?"zh-CN":(navigator.languages??[]).find(l2=>l2.startsWith(
"en"))??"en-GB";var formatters=new Map;function formatter(type,options){const key=`${type} ${locale()} ${JSON.stringify(
options)}`;if(!formatters.has(key))formatters.set(key,new Intl[type](locale(),options));return formatters.get(key)}function money(amount,currency){
const places3=digits(currency);const unit=10**places3;const decimals={minimumFractionDigits:amount%unit===0?0:places3,maximumFractionDigits:places3};
const currencyDisplay=currency==="CNY"?"narrowSymbol":"symbol";const words=formatter("NumberFormat",{style:"currency",currency,
currencyDisplay,...decimals}).format(amount/unit);return currency==="JPY"?words.replace(/(JP)?¥/,"JP¥"):words}var number=n2=>formatter(
"NumberFormat").format(n2);var percent=share=>formatter("NumberFormat",{style:"percent"}).format(share);var dayAndTime={
month:"short",day:"numeric",hour:"2-digit",minute:"2-digit",second:"2-digit",hourCycle:"h23"};var{month,day,...timeOfDay}=dayAndTime;
var{second,...hourOfDay}=timeOfDay;var DAY=864e5;var moment=time=>formatter("DateTimeFormat",dayAndTime).format(new Date(
time));var stamp=time=>formatter("DateTimeFormat",{year:"numeric",...dayAndTime}).format(new Date(time));function hour(time,now2=Date.
now()){const at=new Date(time);return formatter("DateTimeFormat",Math.abs(at-now2)<DAY?hourOfDay:{month,day,...hourOfDay}).
format(at)}var clockTime=time=>formatter("DateTimeFormat",timeOfDay).format(time);function duration(seconds){const minutes=Math.
floor(seconds/60);const rest=seconds%60;if(minutes===0)return t("time.seconds",{s:rest});return minutes>=10||rest===0?t(
"time.minutes",{n:number(minutes)}):t("time.minutesSeconds",{n:minutes,s:rest})}var languageOf=words=>/\p{Script=Han}/u.
test(words)?"zh-CN":"en";function zone(at=new Date){const format=new Intl.DateTimeFormat("en-GB",{timeZoneName:"longOffs\
et"});const offset=format.formatToParts(at).find(p2=>p2.type==="timeZoneName").value.replace("GMT","UTC");return`${format.
resolvedOptions().timeZone} (${offset})`}function left(ms,short=false){const all2=Math.max(0,Math.ceil(ms/1e3));const two=n2=>String(
n2).padStart(2,"0");const days=Math.floor(all2/86400);const minutes=`${two(Math.floor(all2/60)%60)}:${two(all2%60)}`;if(short&&
all2<3600)return minutes;const clock=`${two(Math.floor(all2/3600)%24)}:${minutes}`;return days>0?t("time.days",{days,clock}):
clock}function explain(problem2){const key=`error.${problem2.code}`;if(has(key))return t(key);return t(problem2.status>=500?"e\
rror.internal":"error.other")}function reference(problem2){return problem2.requestId?t("error.reference",{id:problem2.requestId}):
""}var paths={alert:"M12 4 2.5 20h19zM12 10v4.5M12 17.2v.3",back:"M15 5l-7 7 7 7",bell:"M6 17v-6a6 6 0 0 1 12 0v6l1.5 2h-15\
zM10.5 21.5h3",calendar:"M4 6h16v14H4zM4 10.5h16M8.5 3v4M15.5 3v4",check:"M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M8 12.2l2.8\
 2.8L16 9.5",clock:"M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M12 7v5l3.5 2",console:"M4 4h7v9H4zM15 4h5v5h-5zM15 13h5v7h-5zM4 \
17h7v3H4z",cross:"M12 3a9 9 0 1 0 0 18a9 9 0 1 0 0-18M9 9l6 6M15 9l-6 6",exit:"M14 4H5v16h9M10 12h11M17 8l4 4-4 4",orders:"\
M6 3h12v18l-3-2-3 2-3-2-3 2zM9.5 8h5M9.5 12h5",pin:"M12 21c5-5 7-8.2 7-11a7 7 0 0 0-14 0c0 2.8 2 6 7 11zM12 7.5a2.5 2.5 \
0 1 0 0 5a2.5 2.5 0 1 0 0-5",share:"M12 15V3.5M8 7l4-3.5L16 7M5 12v8h14v-8",user:"M12 4a4 4 0 1 0 0 8a4 4 0 1 0 0-8M4.5 \
20.5a7.5 7.5 0 0 1 15 0"};var icon=name2=>svg("svg",{class:"icon",viewBox:"0 0 24 24","aria-hidden":"true"},svg("path",{
d:paths[name2]}));var KEEP=8;var SLACK=100;var DATE_SLACK=1e3;var samples=[];var coarse=null;function observe(serverTime,sent,got){const at=Date.
parse(serverTime);if(Number.isNaN(at))return;const fresh={offset:at-(sent+got)/2,rtt:got-sent};dropContradicted(fresh,SLACK);
samples.push(fresh);if(samples.length>KEEP)samples.shift()}function observeDate(date,sent,got){const at=Date.parse(date);
if(Number.isNaN(at))return;coarse={offset:at+500-(sent+got)/2,rtt:got-sent};dropContradicted(coarse,DATE_SLACK)}function dropContradicted(fresh,slack){
samples=samples.filter(s2=>Math.abs(s2.offset-fresh.offset)<=(s2.rtt+fresh.rtt)/2+slack)}function forget(){samples=samples.
slice(-1)}function now(){let best=samples[0]??coarse;if(!best)return Date.now();for(const s2 of samples)if(s2.rtt<=best.
rtt)best=s2;return performance.now()+best.offset}var BASE="/api/v1";var TIMEOUT=1e4;var Problem=class extends Error{constructor(fields){super(`${fields.code}: ${fields.detail??
fields.title??""}`);Object.assign(this,{status:0,retryAfter:0,requestId:"",orderId:"",errors:[]},fields)}};function codeOf(status){
if(status===413)return"too_large";if(status===429)return"rate_limited";return status>=502&&status<=504?"unavailable":"in\
ternal"}async function problemOf(response){let body={};try{body=await response.json()}catch{}return new Problem({code:body.
code??codeOf(response.status),title:body.title,detail:body.detail,status:response.status,requestId:body.request_id??response.
headers.get("X-Request-Id")??"",orderId:body.order_id??"",errors:body.errors??[],foreign:body.code===void 0,challenge:body.
challenge,shopName:body.shop_name,retryAfter:1e3*(Number(response.headers.get("Retry-After"))||0)})}async function send(method,path2,{
body,key,token:token2,headers:headers2,signal,timeout=TIMEOUT,keepalive,stream:stream2,cache="no-store"}={}){const abort=new AbortController;
const stop2=()=>abort.abort();signal?.addEventListener("abort",stop2);if(signal?.aborted)stop2();const timer3=setTimeout(
stop2,timeout);const all2=new Headers(headers2);if(token2)all2.set("Authorization",`Bearer ${token2}`);if(key)all2.set("\
Idempotency-Key",key);if(body!==void 0)all2.set("Content-Type","application/json");const sent=performance.now();try{const response=await fetch(
BASE+path2,{method,headers:all2,body:body===void 0?void 0:JSON.stringify(body),signal:abort.signal,cache,redirect:"error",
keepalive});const got=performance.now();observeDate(response.headers.get("Date"),sent,got);if(!response.ok)throw await problemOf(
response);if(stream2)return response;const{status,headers:headers3}=response;return Object.assign(new Response(status===
204?null:await response.arrayBuffer(),{status,headers:headers3}),{got})}catch(err){if(err instanceof Problem)throw err;throw new Problem(
{code:"network",detail:String(err)})}finally{clearTimeout(timer3)}}async function asUser(method,path2,{as,by=send,...options}={}){
let token2="";const attempt=async()=>{token2=await session.token();if(as&&session.user()?.id!==as)throw new Problem({code:"\
other_user"});return by(method,path2,{...options,token:token2})};try{return await attempt()}catch(problem2){if(problem2.
code==="token_expired"){await session.renew();return attempt()}if(problem2.code==="unauthenticated")session.expired(token2);
throw problem2}}async function json(response){try{return response.status===204?null:await response.json()}catch(err){throw new Problem(
{code:"network",detail:String(err)})}}var get=async(path2,options)=>json(await send("GET",path2,options));var getMine=async(path2,options)=>json(
await asUser("GET",path2,options));var postMine=async(path2,options)=>json(await asUser("POST",path2,options));var deleteMine=async(path2,options)=>json(await asUser("DELETE",path2,options));function newKey(){return Array.from(crypto.
getRandomValues(new Uint8Array(16)),b2=>b2.toString(16).padStart(2,"0")).join("")}function channelOf(name2){try{return new BroadcastChannel(name2)}catch{return null}}async function exclusive(name2,work,{
signal,alone=work}={}){let granted=false;try{return await navigator.locks.request(name2,{signal},()=>{granted=true;return work()})}catch(err){
if(granted||signal?.aborted)throw err;return alone()}}var NAME="seckill.session";var BY_COOKIE={"X-Refresh-Token":"cookie"};var EARLY=6e4;var TIMEOUT2=4e3;var ATTEMPTS=3;var RETRY_PAUSE=5e3;
var changes2=topic();var channel=channelOf(NAME);var user=null;var lastPhone="";var token="";var expires=0;var renewing=null;
var timer=0;function hint(value){try{if(value===void 0)return localStorage.getItem(NAME)==="1";if(value)localStorage.setItem(
NAME,"1");else localStorage.removeItem(NAME)}catch{}return false}function adopt(login2,broadcast){const before2=user?.id;
({access_token:token,user}=login2);expires=performance.now()+login2.expires_in*1e3;scheduleRenewal(Math.max(1e3,login2.expires_in*
1e3-EARLY));if(broadcast)channel?.postMessage({login:login2});if(user.id!==before2)changes2.emit(user)}function scheduleRenewal(pause2){
clearTimeout(timer);timer=setTimeout(()=>session.renew().catch(()=>{}),pause2)}function drop(broadcast){clearTimeout(timer);
token="";if(broadcast){hint(false);channel?.postMessage({logout:true})}if(user){lastPhone=user.phone;user=null;changes2.
emit(null)}}channel?.addEventListener("message",({data})=>{if(data.login)adopt(data.login,false);if(data.logout)drop(false)});
async function exchange(){for(let attempt=1;;attempt++){try{return await json(await send("POST","/auth/refresh",{headers:BY_COOKIE,
keepalive:true,timeout:TIMEOUT2}))}catch(problem2){if(problem2.code!=="network"||attempt===ATTEMPTS)throw problem2;await sleep(
backoff(attempt,100,500))}}}async function renew(){const stale=token;try{await exclusive(NAME,async()=>{if(token&&token!==
stale)return;const login2=await exchange();if(token!==stale)return;hint(true);adopt(login2,true)})}catch(problem2){if(token!==
stale)return;if(problem2.code==="unauthenticated")drop(true);else if(token)scheduleRenewal(Math.max(problem2.retryAfter,
RETRY_PAUSE*(1+Math.random())));throw problem2}}var session={user:()=>user,lastPhone:()=>lastPhone,may:permission=>user?.
permissions?.includes(permission)??false,on:changes2.on,async start(failed=()=>{}){for(let failures2=0;hint()&&!token;failures2++){
try{await session.renew()}catch(problem2){if(hint())failed(problem2);await sleep(Math.max(problem2.retryAfter,backoff(failures2,
500,1e4)))}}},pending:()=>!token&&hint(),async token(){if(!token&&!hint())throw new Problem({code:"unauthenticated",status:401});
if(!token||performance.now()>expires)await session.renew();return token},renew(){renewing??=renew().finally(()=>renewing=
null);return renewing},async sendCode(phone){const response=await send("POST","/auth/code",{body:{phone},headers:BY_COOKIE});
return{...await json(response),demo:response.headers.get("X-Demo-Code")??""}},async login(phone,code,loginID,totp){await exclusive(
NAME,async()=>{const body={phone,code,login_id:loginID,...totp&&{totp}};const login2=await json(await send("POST","/auth\
/login",{body,headers:BY_COOKIE}));hint(true);adopt(login2,true)})},async logout({everywhere=false}={}){try{await asUser(
"POST",everywhere?"/auth/logout-all":"/auth/logout",{headers:BY_COOKIE})}catch(problem2){if(problem2.code!=="unauthentic\
ated")throw problem2}drop(true)},async erase(){await asUser("DELETE","/me",{headers:BY_COOKIE});drop(true)},expired(rejected){
if(rejected===token)drop(true)}};var VALID=12e4;var open=null;var quota=problem2=>problem2.retryAfter>VALID;function login({again=false}={}){open??=openDialog(
again).finally(()=>open=null);return open}function demoAccounts(choose2){const accounts=(document.documentElement.dataset.
demo??"").split(";").filter(Boolean).map(a2=>a2.split(" "));if(accounts.length===0)return null;return h("div",{class:"de\
mo note"},h("p",{},t("login.demoAccounts")),h("ul",{},accounts.map(([role,number2])=>h("li",{},h("button",{type:"button",
class:"quiet","data-role":role,onclick:()=>choose2(number2)},t(`role.${role}`)," ",h("span",{class:"number"},number2))))))}
function openDialog(again){return new Promise(resolve=>{const ids2={title:newID("login"),phone:newID("phone"),format:newID(
"format"),code:newID("code"),note:newID("note"),error:newID("error"),totp:newID("totp"),totpNote:newID("note")};const phone=h(
"input",{id:ids2.phone,type:"tel",name:"phone",autocomplete:"tel",inputmode:"tel",required:true,"aria-describedby":`${ids2.
format} ${ids2.error}`,oninput:()=>render2()});const code=h("input",{id:ids2.code,type:"text",name:"code",autocomplete:"\
one-time-code",inputmode:"numeric","aria-describedby":`${ids2.note} ${ids2.error}`});const totp=h("input",{id:ids2.totp,
type:"text",name:"totp",autocomplete:"one-time-code",inputmode:"numeric","aria-describedby":`${ids2.totpNote} ${ids2.error}`});
const note=h("p",{id:ids2.note,class:"note"});const error2=h("p",{id:ids2.error,class:"error",role:"alert"});const resend=h(
"button",{type:"button",class:"link",onclick:()=>resend.hasAttribute("aria-disabled")||send2()},t("login.resend"));const submit=h(
"button",{type:"submit",class:"primary"});const second2=h("div",{class:"field"},h("label",{for:ids2.code},t("login.code")),
code,note,resend);const third=h("div",{class:"field"},h("label",{for:ids2.totp},t("login.totp")),totp,h("p",{id:ids2.totpNote,
class:"note"},t("login.totpNote")));const demo=demoAccounts(enterAs);const form=h("form",{onsubmit:next2,novalidate:true},
h("h2",{id:ids2.title},t("login.title")),again||!demo?h("p",{class:"note"},t(again?"login.ended":"login.why")):null,h("d\
iv",{class:"field"},h("label",{for:ids2.phone},t("login.phone")),phone,h("p",{id:ids2.format,class:"note"},t("login.form\
at")),demo),second2,third,error2,h("div",{class:"actions"},h("button",{type:"button",class:"quiet",onclick:()=>dialog.close()},
t("cancel")),submit));const dialog=h("dialog",{"aria-labelledby":ids2.title,class:"sheet",onclose:closed2},form);let sentTo="";
let loginID;let needsTOTP=false;let done2=false;let working=false;let ticking=0;const sent=()=>sentTo!==""&&sentTo===phone.
value.trim();function render2(){show(second2,sent());show(third,sent()&&needsTOTP);text(submit,working?t("working"):sent()?
t("login.enter"):t("login.send"));attr(submit,"aria-disabled",working)}function fail2(problem2){if(problem2.code==="totp\
_required"){if(needsTOTP)text(error2,t("login.wrongTOTP"));needsTOTP=true;render2();totp.value="";totp.focus();return}if(problem2.
code==="rate_limited"&&!sent()){text(error2,quota(problem2)?t("login.quota",{at:hour(now()+problem2.retryAfter,now())}):
t("login.sentBefore"));return}const wrongCode=problem2.code==="unauthenticated";text(error2,wrongCode?t("login.wrong"):problem2.
code==="invalid_request"&&!sent()?t("login.badphone"):explain(problem2))}async function work(what){if(working)return;working=
true;const number2=phone.value.trim();text(error2,"");render2();try{await what()}catch(problem2){fail2(problem2);if(problem2.
code==="rate_limited"&&!quota(problem2))sentTo=number2;if(problem2.retryAfter>0)countDown(problem2.retryAfter)}finally{working=
false;render2()}}function countDown(ms){const until=performance.now()+ms;clearInterval(ticking);const tick=()=>{const rest=until-
performance.now();attr(resend,"aria-disabled",rest>0);text(resend,rest>0?t("login.resendIn",{left:duration(Math.ceil(rest/
1e3))}):t("login.resend"));if(rest<=0)clearInterval(ticking)};ticking=setInterval(tick,1e3);tick()}async function sendCode(){
const number2=phone.value.trim();const answer=await session.sendCode(number2);sentTo=number2;loginID=answer.login_id;needsTOTP=
false;totp.value="";render2();if(!sent())return;text(note,answer.demo?t("login.demo",{code:answer.demo}):t("login.sent"));
code.value=answer.demo;countDown(answer.resend_after*1e3);code.focus()}async function enter(){await session.login(phone.
value.trim(),code.value.trim(),loginID,totp.value.trim());done2=true;dialog.close()}const send2=()=>work(sendCode);function enterAs(number2){
if(working)return;phone.value=number2;sentTo="";work(async()=>{await sendCode();await enter()})}function next2(event){event.
preventDefault();if(!sent()){if(phone.value.trim()===""){text(error2,t("login.badphone"));phone.focus();return}send2();return}
work(enter)}function closed2(){clearInterval(ticking);dialog.remove();if(document.activeElement===document.body)focusPage();
resolve(done2)}if(again)phone.value=session.lastPhone();render2();document.body.append(dialog);dialog.showModal();phone.
focus()})}var{t:t2}=i18n_exports;var root=document.getElementById("page");var nav=document.getElementById("nav");var account=document.
getElementById("account");var pages=[];var missing=null;var links=()=>[];var foot=()=>"";var badge=()=>"";var openAccount=null;
var unmount=()=>{};var find=path2=>pages.find(p2=>p2.path.test(path2));var here=()=>find(location.pathname)??missing??pages[0];
var full=url2=>url2.pathname+url2.search;var home=document.querySelector(".brand").getAttribute("href");var staff=home===
"/console";var shop=JSON.parse(document.documentElement.dataset.shop??"{}");function decode(part){try{return decodeURIComponent(
part)}catch{return part}}function open2(moved){unmount();const page2=here();unmount=page2.mount(root,...(page2.path?.exec(
location.pathname)??[]).slice(1).map(decode));showTitle();markCurrent();if(!moved)return;scrollTo(0,0);focusPage()}function brand(){
if(!shop.name)return t2("brand");return staff?`${shop.name} · ${t2("console")}`:shop.name}function luminance(color){const[
red,green,blue]=[1,3,5].map(at=>parseInt(color.slice(at,at+2),16)/255).map(part=>part<=.04045?part/12.92:((part+.055)/1.055)**
2.4);return .2126*red+.7152*green+.0722*blue}function dress(){if(shop.logo)document.querySelector(".mark").replaceWith(h(
"img",{class:"mark",src:shop.logo,alt:""}));if(!shop.color)return;const{style}=document.documentElement;style.setProperty(
"--accent",shop.color);style.setProperty("--accent-press",`color-mix(in srgb, ${shop.color} 85%, ${luminance(shop.color)>
.179?"white":"black"})`);style.setProperty("--accent-ink",luminance(shop.color)>.179?"#000":"#fff")}function showTitle(){
const{title:title2}=here();document.title=[badge(),typeof title2==="function"?title2():t2(title2),brand()].filter(Boolean).
join(" · ")}function go(path2,state2=null){const to=new URL(path2,location.href);if(!find(to.pathname))return false;if(full(
to)!==full(location)||state2!==history.state)history.pushState(state2,"",full(to));open2(true);return true}function onClick(event){const link=event.target.closest?.("a[href^='/']");if(!link||event.defaultPrevented||event.button!==
0||event.metaKey||event.ctrlKey||event.shiftKey||event.altKey)return;if(go(link.href))event.preventDefault()}function markCurrent(){
for(const link of nav.querySelectorAll("a")){const current2=link.getAttribute("href")===here().nav;attr(link,"aria-curre\
nt",current2?"page":null);if(current2)nav.scrollLeft=link.offsetLeft-nav.offsetLeft}}async function logout(){try{await session.
logout()}catch(problem2){text(account.querySelector("output"),explain(problem2))}}function accountOf(phone){const label=[
h("span",{class:"sr"},t2("login.as")," "),phone];if(!openAccount)return h("span",{class:"phone"},label);return h("button",
{type:"button",class:"phone link","data-do":"account","aria-haspopup":"dialog",onclick:openAccount},icon("user"),h("span",
{class:"word"},label))}function more(){const demo="demo"in document.documentElement.dataset;const lang=language();const to=[
[shop.imprint,"more.imprint",!staff&&shop.imprint],[shop.privacy,"more.privacy",!staff&&shop.privacy],["/","more.shop",staff],
["/console","console",!staff&&demo],[`/docs?lang=${lang}`,"more.docs",staff||demo],[`/problems?lang=${lang}`,"more.probl\
ems",staff||demo]];return to.filter(([,,shown2])=>shown2).map(([href,key])=>h("a",{href},t2(key)))}function render(){text(
document.getElementById("brand"),brand());text(document.getElementById("skip"),t2("skip"));text(document.getElementById(
"foot"),foot());const elsewhere=document.getElementById("more");attr(elsewhere,"aria-label",t2("more.nav"));elsewhere.replaceChildren(
...more());attr(nav,"aria-label",t2("nav"));const user2=session.user();nav.replaceChildren(...links(user2).map(([href,key,
name2])=>h("a",{href},name2&&icon(name2),h("span",{class:"word"},t2(key)))));markCurrent();const other=Object.keys(languages).
find(l2=>l2!==language());const switchLanguage=h("button",{type:"button",class:"quiet","data-do":"language",lang:other===
"zh"?"zh-CN":other,onclick:()=>choose(other)},languages[other]);const phone=user2?user2.phone.replace(/^(.*)(....)(....)$/,
"$1····$3"):"";const button=(name2,press2,...sign)=>h("button",{type:"button",class:"quiet","data-do":name2,onclick:press2},
sign,h("span",{class:"word"},t2(name2)));account.replaceChildren(h("output",{}),switchLanguage,...user2?[accountOf(phone),
button("logout",logout,icon("exit"))]:[button("login",()=>login())]);show(account,true)}function start(options){({pages,
links,foot}=options);missing=options.missing??null;badge=options.badge??badge;openAccount=options.account??null;use(options.
texts);dress();document.addEventListener("click",onClick);addEventListener("popstate",()=>open2(true));render();open2(false);
session.on(render);onLanguage(()=>{const focused=account.contains(document.activeElement);render();open2(false);if(focused)
account.querySelector("button").focus()})}function confirm(question,yes,explanation=""){return new Promise(resolve=>{const id=newID("confirm");let agreed=false;const dialog=h(
"dialog",{class:"sheet","aria-labelledby":id,onclose:()=>{dialog.remove();resolve(agreed)}},h("h2",{id},question),explanation?
h("p",{class:"note"},explanation):null,h("div",{class:"actions"},h("button",{type:"button",class:"quiet",onclick:()=>dialog.
close()},t("back")),h("button",{type:"button",class:"primary",onclick:()=>{agreed=true;dialog.close()}},yes)));document.
body.append(dialog);dialog.showModal()})}function save(content,name2){const url2=URL.createObjectURL(content);h("a",{href:url2,download:name2}).click();setTimeout(
()=>URL.revokeObjectURL(url2),6e4)}var FILE="seckill-data.json";var TIMEOUT3=15e3;async function download(){const response=await asUser("GET","/me/export",
{timeout:TIMEOUT3});save(await response.blob(),FILE)}function account2(){const id=newID("account");const error2=h("p",{class:"\
error",role:"alert"});let working=false;async function work(what){if(working)return;working=true;text(error2,"");attr(dialog,
"aria-busy",true);try{await what()}catch(problem2){text(error2,explain(problem2))}finally{working=false;attr(dialog,"ari\
a-busy",null)}}async function everywhere(){await session.logout({everywhere:true});dialog.close()}async function erase(){
if(!await confirm(t("account.sure"),t("account.delete"),t("account.consequences")))return;await session.erase();dialog.close()}
const button=(name2,what)=>h("button",{type:"button",class:"quiet","data-do":name2,onclick:()=>work(what)},t(`account.${name2}`));
const dialog=h("dialog",{class:"sheet","aria-labelledby":id,onclose:()=>dialog.remove()},h("h2",{id},t("account.title")),
h("p",{class:"note"},t("account.note")),button("everywhere",everywhere),button("download",download),button("delete",erase),
error2,h("div",{class:"actions"},h("button",{type:"button",class:"primary",onclick:()=>dialog.close()},t("back"))));document.
body.append(dialog);dialog.showModal()}var buy_exports={};__export(buy_exports,{onChange:()=>onChange5,press:()=>press,purchase:()=>purchase,start:()=>start5});var human_exports={};__export(human_exports,{demanded:()=>demanded,forget:()=>forget3,onChange:()=>onChange,prepare:()=>prepare,
solution:()=>solution,stateOf:()=>stateOf});var MARGIN=1e4;var solutions=new Map;var name=voucherID=>`${session.user()?.id} ${voucherID}`;function proveHuman(voucherID,challenge){
const key=name(voucherID);const known2=solutions.get(key);if(known2&&now()<known2.until)return known2.solution;const fresh={
until:Infinity};fresh.solution=prove(voucherID,challenge).then(({solution:solution2,until})=>{fresh.until=until-MARGIN;return solution2},
problem2=>{if(solutions.get(key)===fresh)solutions.delete(key);throw problem2});solutions.set(key,fresh);return fresh.solution}
var forget2=voucherID=>solutions.delete(name(voucherID));async function prove(voucherID,challenge){challenge??=await request(
voucherID);if(!challenge)return{until:now()+6e4};const solution2=await solve(challenge.parameters);return{solution:btoa(
JSON.stringify({challenge,solution:solution2})),until:challenge.parameters.expiresAt*1e3}}async function request(voucherID){
try{await postMine(`/vouchers/${voucherID}/entry`,{as:session.user()?.id})}catch(problem2){if(!problem2.challenge)throw problem2;
return problem2.challenge}return void 0}var url=new URL("../proof/worker.js",import.meta.url).href;var policy=globalThis.
trustedTypes?.createPolicy("proof",{createScriptURL:()=>url});async function solve(parameters){let worker;try{worker=new Worker(
policy?.createScriptURL("")??url);return await new Promise((done2,fail2)=>{worker.onmessage=({data})=>data.error?fail2(data.
error):done2(data);worker.onerror=fail2;worker.postMessage(parameters)})}catch(err){throw new Problem({code:"challenge_r\
equired",detail:String(err)})}finally{worker?.terminate()}}var AHEAD=45e3+45e3*Math.random();var AFTER=6e5;var AGAIN=1e3;var RETRY=5e3;var proofs=new Map;var changes3=topic();var onChange=changes3.
on;var demanded=v2=>v2?.entry?.challenge==="on";var stateOf=id=>proofs.get(id)?.is??"";function prepare(v2,state2,now2){
const soon=state2==="upcoming"&&Date.parse(v2.begin_at)-now2<AHEAD;const hurried=state2==="on_sale"&&now2-Date.parse(v2.
begin_at)<AFTER;if(!demanded(v2)||v2.entry.mode!=="pass"||!session.user()||!(soon||hurried)){proofs.delete(v2.id);return}
let p2=proofs.get(v2.id);if(!p2)proofs.set(v2.id,p2={is:"working",next:0});if(p2.running||performance.now()<p2.next)return;
p2.running=true;const settle=is=>{p2.running=false;p2.next=performance.now()+(is==="failed"?RETRY*(1+Math.random()):AGAIN);
if(p2.is===is)return;p2.is=is;changes3.emit()};solution(v2.id).then(()=>settle("ready"),()=>settle("failed"))}var solution=(id,challenge)=>proveHuman(
id,challenge??void 0);function forget3(id){proofs.delete(id);forget2(id)}session.on(()=>proofs.clear());var mine_exports={};__export(mine_exports,{act:()=>act,active:()=>active,doing:()=>doing,expired:()=>expired,fetchOne:()=>fetchOne,
hasMore:()=>hasMore,holding:()=>holding,list:()=>list,load:()=>load,loadState:()=>loadState,onChange:()=>onChange2,order:()=>order,
pin:()=>pin,put:()=>put,start:()=>start2,timeLeft:()=>timeLeft});var SILENCE=2e4;var MOST_SILENT=2;var MUTE=8e3;var HELD=6e5;var FIRST=500;var MOST=15e3;var SPREAD=3e3;async function follow(path2,{
signal,headers:own,lastID="",most=MOST,onEvent,onProblem,done:done2}){let silent=0;for(let failures2=0;!signal.aborted;failures2++){
let retryAfter=0;let renew3=false;let heard=false;const began=performance.now();const cut=new AbortController;const stop2=()=>cut.
abort();signal.addEventListener("abort",stop2);try{const headers2={...own,Accept:"text/event-stream",...lastID&&{"Last-E\
vent-ID":lastID}};const response=await asUser("GET",path2,{headers:headers2,signal:cut.signal,stream:true,timeout:MUTE});
if(response.status===204)return false;const hear=()=>{if(!heard)onProblem?.(null);heard=true;if(performance.now()-began>
MUTE)silent=0};const fallSilent=()=>{silent++;stop2()};for await(const event of events(response.body,hear,fallSilent)){failures2=
0;if(renew3=event.event==="reauth")break;if(event.id)lastID=event.id;if(event.data!=="")onEvent(event);if(done2?.(event))
return false}}catch(err){if(signal.aborted)return false;if(!(err instanceof Problem))throw err;if(err.foreign&&err.status>=
400&&err.status<500&&err.status!==429)return true;onProblem?.(err);if(err.status===404||err.status===401)return false;heard||=
err.status!==0;retryAfter=err.retryAfter}finally{signal.removeEventListener("abort",stop2);cut.abort()}if(!heard&&!signal.
aborted&&performance.now()-began>=MUTE)return true;if(silent===MOST_SILENT)return true;if(!renew3)await pauseOrOnline(retryAfter+
(failures2===0?Math.random()*SPREAD:backoff(failures2,FIRST,most)),signal)}return false}async function pauseOrOnline(pause2,signal){
if(signal.aborted)return;const wake=new AbortController;const up=()=>wake.abort();addEventListener("online",up,{once:true});
signal.addEventListener("abort",up,{once:true});await sleep(pause2,wake.signal);removeEventListener("online",up);signal.
removeEventListener("abort",up)}async function*events(body,hear,stop2){const reader=body.pipeThrough(new TextDecoderStream).
getReader();let timer3=setTimeout(stop2,MUTE);let rest="";let event={event:"message",id:"",data:""};try{for(;;){const{value,
done:done2}=await reader.read().catch(()=>({done:true}));if(done2)return;hear();clearTimeout(timer3);timer3=setTimeout(stop2,
SILENCE);const lines=(rest+value).split("\n");rest=lines.pop();for(const line of lines){if(line===""){yield event;event=
{event:"message",id:"",data:""}}else if(!line.startsWith(":")){const colon=line.indexOf(": ");event[line.slice(0,colon)]=
line.slice(colon+2)}}}}finally{clearTimeout(timer3);reader.cancel().catch(()=>{})}}var MAX_STREAMS=2;var POLL=5e3;var IDLE_POLLS=4;var LOST=5e3;var REVIVAL=36e5;var PAYING=2e4;var progress={queued:0,pending_payment:1,
paid:2,redeemed:3,refunding:3,cancelled:4,refunded:4,failed:4};var final=order2=>["redeemed","cancelled","refunded","fai\
led"].includes(order2.status);var active=order2=>!["cancelled","refunded","failed"].includes(order2.status);var expired=order2=>order2.
status==="cancelled"&&Date.parse(order2.cancelled_at)>=Date.parse(order2.expires_at);var revivable=o2=>o2.status==="fail\
ed"&&now()-Date.parse(o2.created_at)<REVIVAL;var idle=o2=>revivable(o2)||o2.status==="paid"||o2.status==="pending_paymen\
t"&&timeLeft(o2)>0;var orders=new Map;var missing2=new Map;var busy=new Map;var streams=new Map;var changes4=topic();var channel2=channelOf(
"seckill.orders");var state="none";var problem=null;var onChange2=changes4.on;var loadState=()=>({state,problem});var order=id=>orders.
get(id);var doing=id=>busy.get(id)??{};function list(){return[...orders.values()].sort((a2,b2)=>b2.id.length-a2.id.length||
(b2.id<a2.id?-1:1))}var holding=voucherID=>list().filter(o2=>o2.voucher_id===voucherID&&active(o2));function put(order2,notify=true){
if(order2.user_id!==session.user()?.id)return;let known2=orders.get(order2.id);if(known2?.guessed)known2={status:known2.
status};else if(known2&&progress[known2.status]>progress[order2.status]&&(known2.status!=="failed"||order2.status==="que\
ued"))return;orders.set(order2.id,{...known2,...order2});if(known2?.status!==order2.status){if(notify)channel2?.postMessage(
{user:session.user()?.id});if(known2)busy.delete(order2.id)}changes4.emit(order2,known2?.status);updateStreams()}var cursor=null;
var hasMore=()=>cursor!==null;async function load(more3=false){const user2=session.user()?.id;if(!user2)return;if(state===
"none"||state==="failed")state="loading";try{const page2=await getMine(`/orders?limit=50${more3&&cursor?`&cursor=${cursor}`:
""}`);if(session.user()?.id!==user2)return;if(more3||state==="loading")cursor=page2.next_cursor;for(const o2 of page2.items)
put(o2,false);[state,problem]=["loaded",null]}catch(err){if(session.user()?.id!==user2)return;problem=err;if(state==="lo\
ading")state="failed"}changes4.emit()}async function fetchOne(id){try{put(await getMine(`/orders/${encodeURIComponent(id)}`));
missing2.delete(id)}catch(err){const known2=order(id);if(err.code!=="not_found"||known2?.status!=="queued")throw err;if(!missing2.
has(id))missing2.set(id,performance.now());if(performance.now()-missing2.get(id)>=LOST)put({...known2,status:"failed",reason:"\
internal",guessed:true})}return order(id)}async function act(id,action2){const before2=doing(id);if(before2.action&&!before2.
problem)return;const key=before2.action===action2?before2.key:newKey();const user2=session.user()?.id;busy.set(id,{action:action2,
key,since:performance.now()});changes4.emit();try{const answer=await postMine(`/orders/${id}/${action2}`,{as:user2,key});
if(answer.payment?.checkout_url)location.assign(answer.payment.checkout_url);put(action2==="pay"?answer.order:answer);if(session.
user()?.id!==user2)return;if(action2==="pay"&&order(id)?.status==="pending_payment"){busy.set(id,{action:action2,key,submitted:true,
since:performance.now()});updateStreams()}else busy.delete(id)}catch(err){if(session.user()?.id!==user2)return;if(err.code===
"invalid_state"){busy.delete(id);await fetchOne(id).catch(()=>{});if(order(id)?.status==="pending_payment")busy.set(id,{
action:action2,problem:err})}else busy.set(id,{action:action2,key,problem:err})}changes4.emit()}async function checkPayment(id){
const was=doing(id);try{const payments=(await getMine(`/orders/${id}/payments`)).items;if(doing(id)!==was||order(id)?.status!==
"pending_payment")return;if(payments.length>0&&payments.every(p2=>p2.status==="failed")){busy.set(id,{action:"pay",problem:{
code:"payment_failed"}});changes4.emit()}else if(performance.now()-was.since>PAYING)busy.delete(id),changes4.emit()}catch{}}
var lastIDs=new Map;var heldUntil=0;var pinned="";function pin(id){pinned=id;updateStreams()}var awaited=o2=>o2.id===pinned||
Boolean(doing(o2.id).submitted);function watched(){if(document.hidden||!session.user()||performance.now()<heldUntil)return[];
const rank2=o2=>awaited(o2)?1:{queued:2,refunding:3}[o2.status];return list().filter(o2=>!final(o2)&&rank2(o2)).sort((a2,b2)=>rank2(
a2)-rank2(b2)).slice(0,MAX_STREAMS).map(o2=>o2.id)}function updateStreams(){const ids2=watched();for(const[id,abort]of streams){
if(!ids2.includes(id)){streams.delete(id);abort.abort()}}for(const id of ids2){if(streams.has(id))continue;const abort=new AbortController;
streams.set(id,abort);follow(`/orders/${id}/events`,{signal:abort.signal,lastID:lastIDs.get(id),onEvent:event=>{if(event.
id)lastIDs.set(id,event.id);put(JSON.parse(event.data))},done:()=>final(order(id)??{status:"failed"})}).then(held=>{if(!held)
return;heldUntil=performance.now()+HELD;updateStreams();fetchOne(id).catch(()=>{})}).finally(()=>{if(streams.get(id)===abort)
streams.delete(id)})}}async function poll(failures2=0,turn2=0){if(!document.hidden&&session.user()){for(const[id,{submitted}]of busy)
if(submitted)await checkPayment(id);const unwatched=list().filter(o2=>(!final(o2)||revivable(o2))&&!streams.has(o2.id)&&
(!idle(o2)||awaited(o2)||turn2%IDLE_POLLS===0));if(state==="failed"||unwatched.some(o2=>!awaited(o2)))await load();for(const o2 of unwatched)
if(["queued","failed"].includes(o2.status)||awaited(o2))await fetchOne(o2.id).catch(()=>{})}failures2=problem?failures2+
1:0;setTimeout(poll,POLL+backoff(failures2,500,2e4),failures2,turn2+1)}function start2(){const begin2=user2=>{orders.clear();
busy.clear();missing2.clear();lastIDs.clear();[state,problem,cursor]=["none",null,null];updateStreams();changes4.emit();
if(user2)load()};session.on(begin2);if(session.user())begin2(session.user());document.addEventListener("visibilitychange",
()=>{updateStreams();if(!document.hidden)load()});channel2?.addEventListener("message",({data})=>{if(data.user===session.
user()?.id&&!document.hidden)load()});poll()}var timeLeft=o2=>Date.parse(o2.expires_at)-now();var rooms_exports={};__export(rooms_exports,{badge:()=>badge2,begin:()=>begin,done:()=>done,leave:()=>leave,onChange:()=>onChange3,
place:()=>place,renew:()=>renew2,start:()=>start3});var MAX_STREAMS2=1;var POLL2=5e3;var RETRY2=1e3;var SLOWEST=8e3;var STORED="seckill.place.";var places=new Map;var changes5=topic();
var channel3=channelOf("seckill.rooms");var streams2=0;var heldUntil2=0;var onChange3=changes5.on;function place(id){const state2=places.
get(id)?.state??{is:"none"};return state2.is==="admitted"&&state2.until<=now()?{is:"asking",offline:state2.offline}:state2}
function badge2(){const all2=[...places.keys()].map(place);if(all2.some(p2=>p2.is==="admitted"))return t("room.badgeTurn");
const positions=all2.filter(p2=>p2.is==="waiting").map(p2=>p2.position);if(positions.length>0)return t("room.badge",{position:Math.
min(...positions)});return all2.some(p2=>p2.is==="lobby")?t("room.badgeLobby"):""}function begin(id,user2,answer){stop(id);
const p2={user:user2,ticket:answer.ticket,state:{is:"asking"},abort:new AbortController};places.set(id,p2);store(user2,id,
p2.ticket);take(id,p2,answer);keep(id,p2)}async function leave(id){const p2=places.get(id);try{await deleteMine(path(id),
{as:p2.user,headers:headers(p2)})}catch(problem2){if(problem2.code!=="entry_required")throw problem2}if(places.get(id)===
p2)drop2(id,p2,"none")}function done(id){const p2=places.get(id);if(p2)drop2(id,p2,"none")}async function renew2(id){const p2=places.
get(id);if(!p2)return void 0;try{take(id,p2,await getMine(path(id),{as:p2.user,headers:headers(p2)}))}catch(problem2){fail(
id,p2,problem2)}return place(id).pass}var path=id=>`/vouchers/${id}/entry`;var headers=p2=>({"X-Entry-Ticket":p2.ticket});
function set(id,p2,state2){if(places.get(id)!==p2)return;p2.state=state2;channel3?.postMessage({user:p2.user,id,state:state2});
changes5.emit(id)}function take(id,p2,a2){const until=Date.parse(a2.expires_at);if(a2.state==="admitted"&&until!==p2.state.
until){clearTimeout(p2.expiry);p2.expiry=setTimeout(()=>places.get(id)===p2&&!p2.abort.signal.aborted&&renew2(id),until-
now())}set(id,p2,{is:a2.state,pass:a2.pass,until,position:a2.position,ahead:a2.ahead,eta:a2.eta_seconds,paused:a2.paused,
message:a2.message})}function fail(id,p2,{code}){if(code==="entry_required")drop2(id,p2,"lost");else if(["sale_ended","i\
nvalid_state","not_found"].includes(code))drop2(id,p2,"none");else if(code==="sold_out")set(id,p2,{is:"sold_out"});else if(code===
"sale_not_started")set(id,p2,{is:"lobby"});else set(id,p2,{...p2.state,offline:true})}function drop2(id,p2,is){if(places.
get(id)!==p2)return;store(p2.user,id,null);set(id,p2,{is});p2.abort.abort()}function stop(id){places.get(id)?.abort.abort();
places.delete(id)}function store(user2,id,ticket){try{if(ticket===null)localStorage.removeItem(`${STORED}${user2}.${id}`);else
localStorage.setItem(`${STORED}${user2}.${id}`,ticket)}catch{}}async function keep(id,p2){const{signal}=p2.abort;const lead=()=>new Promise(
release=>{p2.leads=true;signal.addEventListener("abort",release);watch(id,p2).finally(release)});const alone=()=>poll2(id,
p2);return exclusive(`${STORED}${p2.user}.${id}`,lead,{signal,alone}).catch(err=>{if(!signal.aborted)throw err})}async function watch(id,p2){
if(streams2>=MAX_STREAMS2)return poll2(id,p2);const soldOut2=()=>p2.state.is==="sold_out";const held=()=>performance.now()<
heldUntil2;while(!p2.abort.signal.aborted){if(soldOut2())await poll2(id,p2,soldOut2);else if(held())await poll2(id,p2,held);else if(await stream(
id,p2))heldUntil2=performance.now()+HELD;else if(!soldOut2())return}}async function stream(id,p2){streams2++;const end=new AbortController;
const stop2=()=>end.abort();p2.abort.signal.addEventListener("abort",stop2);const failed=problem2=>{fail(id,p2,problem2);
if(p2.state.is==="sold_out")stop2()};return follow(`${path(id)}/events`,{signal:end.signal,headers:headers(p2),most:SLOWEST,
onEvent:({event,data})=>event==="end"?failed(JSON.parse(data)):take(id,p2,JSON.parse(data)),onProblem:problem2=>problem2&&
failed(problem2)}).finally(()=>{streams2--;p2.abort.signal.removeEventListener("abort",stop2)})}async function poll2(id,p2,needed=()=>true){
const{signal}=p2.abort;let pause2=p2.state.is==="sold_out"?SLOWEST:0;for(let failures2=0;;){await pauseOrOnline(pause2,signal);
if(signal.aborted||!needed())return;try{const answer=await getMine(path(id),{as:p2.user,headers:headers(p2),signal});failures2=
0;pause2=answer.poll_after_ms??POLL2;take(id,p2,answer)}catch(problem2){if(!problem2.code)throw problem2;if(signal.aborted)
return;pause2=problem2.code==="sold_out"?SLOWEST:problem2.retryAfter+backoff(failures2++,RETRY2,SLOWEST);fail(id,p2,problem2)}}}
function restore(user2){for(const id of[...places.keys()])stop(id);changes5.emit();if(!user2)return;const prefix=`${STORED}${user2.
id}.`;let names=[];try{names=Object.keys(localStorage).filter(name2=>name2.startsWith(prefix))}catch{}for(const name2 of names)
adopt2(user2.id,name2.slice(prefix.length),{is:"asking"});channel3?.postMessage({user:user2.id,hello:true})}function adopt2(user2,id,state2){
let p2=places.get(id);if(!p2||p2.abort.signal.aborted){let ticket=null;try{ticket=localStorage.getItem(`${STORED}${user2}\
.${id}`)}catch{}p2={user:user2,ticket,state:state2,abort:new AbortController};places.set(id,p2);if(ticket!==null)keep(id,
p2)}p2.state=state2;if(["none","lost"].includes(state2.is))p2.abort.abort();changes5.emit(id)}function start3(){session.
on(restore);if(session.user())restore(session.user());addEventListener("pagehide",()=>restore(null));addEventListener("p\
ageshow",event=>event.persisted&&restore(session.user()));channel3?.addEventListener("message",({data:{user:user2,id,state:state2,
hello}})=>{if(user2!==session.user()?.id)return;if(!hello)return adopt2(user2,id,state2);for(const[id2,p2]of places)if(p2.
leads&&!p2.abort.signal.aborted)channel3.postMessage({user:user2,id:id2,state:p2.state})})}var sales_exports={};__export(sales_exports,{all:()=>all,bought:()=>bought,error:()=>error,hasMore:()=>hasMore2,hasPast:()=>hasPast,
loaded:()=>loaded,missing:()=>missing3,more:()=>more2,onChange:()=>onChange4,one:()=>one,readPast:()=>readPast,refresh:()=>refresh,
sale:()=>sale,soldOut:()=>soldOut,start:()=>start4,stateOf:()=>stateOf2,watch:()=>watch2});var PAGE=100;var PAGES=5;var SOON=15e3;var OPEN=3e3;var QUIET=500;var SLOW=8e3;var LAG=2e3;var gone=["invalid_request","\
unauthenticated","forbidden","not_found"];var sales=new Map;var changes6=topic();var timer2=0;var failures=0;var pages2=PAGES;
var cursor2=null;var running=null;var watching=false;var only=null;var past=null;var onChange4=changes6.on;var all=()=>[
...new Map([...past??[],...sales]).values()];var sale=id=>sales.get(id)??past?.get(id);var hasMore2=()=>cursor2!==null;var hasPast=()=>past!==
null;var error=null;var loaded=false;var missing3=null;function stateOf2(v2,now2=now()){if(v2.status!=="on"||now2>=Date.
parse(v2.end_at))return"ended";if(now2<Date.parse(v2.begin_at))return"upcoming";return v2.stock>0?"on_sale":"sold_out"}var tags=new Map;
var quiet=0;async function request2(path2,by=send){const sent=performance.now();const response=await by("GET",path2,{cache:"\
no-cache"});observe(response.headers.get("X-Server-Time"),sent,response.got);const tag=response.headers.get("ETag");if(tags.
get(path2)!==tag)quiet=0;tags.set(path2,tag);return json(response)}async function page(status,after){const body=await request2(
`/vouchers?status=${status}&limit=${PAGE}${after?`&cursor=${after}`:""}`);return{...body,items:body.items.filter(v2=>v2.
type==="seckill")}}async function read(id){quiet++;const found=new Map;const began=performance.now();if(id){const path2=`\
/vouchers/${encodeURIComponent(id)}`;const preview=new URLSearchParams(location.search).has("preview");const v2=preview?
{...await request2(path2,asUser),status:"on",preview}:await request2(path2);if(v2.type!=="seckill")throw new Problem({code:"\
not_found",status:404});found.set(id,v2)}else{let after=null;for(let n2=0;n2===0||n2<pages2&&after!==null;n2++){const{items,
next_cursor}=await page("current",after);for(const v2 of items)found.set(v2.id,v2);after=next_cursor}cursor2=after;const now2=now();
for(const[of,v2]of sales)if(!found.has(of)&&!v2.preview&&Date.parse(v2.end_at)<=now2)found.set(of,v2)}if(!id&&!only)sales.
clear();for(const[of,v2]of found)sales.set(of,began<known.get(of)?.until?{...v2,stock:Math.min(v2.stock,known.get(of).stock)}:
v2)}async function readPast(){try{past=new Map((await page("ended")).items.map(v2=>[v2.id,v2]))}catch(problem2){error=problem2}
changes6.emit()}var known=new Map;function atMost(id,stock,until){known.set(id,{stock,until});if(sales.has(id))sales.set(
id,{...sales.get(id),stock});changes6.emit()}var soldOut=id=>atMost(id,0,performance.now());var bought=id=>sales.has(id)&&
atMost(id,Math.max(sales.get(id).stock-1,0),performance.now()+LAG);function refresh(){running??=(async()=>{const id=only;
try{await read(id);loaded||=!id;failures=0;error=null}catch(problem2){if(id&&gone.includes(problem2.code)){sales.delete(
id);missing3=id}else if(++failures>1||!(id?sales.has(id):loaded)||!navigator.onLine)error=problem2}changes6.emit()})().finally(
()=>{running=null;schedule()});return running}function more2(){pages2+=PAGES;return refresh()}var others=new Map;function one(id){
if(sales.has(id))return sales.get(id);if(!others.has(id))others.set(id,{voucher:null,failures:0,next:0});const o2=others.
get(id);if(performance.now()>=o2.next){o2.next=Infinity;get(`/vouchers/${id}`).then(v2=>{o2.voucher=v2;changes6.emit()},
problem2=>o2.next=performance.now()+problem2.retryAfter+backoff(o2.failures++,4e3,3e5))}return o2.voucher}function pause(){
if(failures>0)return backoff(failures,1e3,15e3);const now2=now();const near=time=>Math.abs(Date.parse(time)-now2)<SOON;let wait2=SLOW;
for(const v2 of sales.values()){if(near(v2.begin_at)||near(v2.end_at))wait2=OPEN;else if(["on_sale","sold_out"].includes(
stateOf2(v2,now2)))wait2=Math.min(wait2,OPEN+quiet*QUIET)}return wait2*(.7+.6*Math.random())}function schedule(){clearTimeout(
timer2);if(watching&&!document.hidden)timer2=setTimeout(refresh,pause())}function watch2(id=null){[watching,only,missing3]=
[true,id,null];if(running)running.then(refresh);else refresh();return()=>{watching=false;clearTimeout(timer2)}}function start4(){
document.addEventListener("visibilitychange",()=>{if(document.hidden)clearTimeout(timer2);else if(watching){forget();refresh()}});
addEventListener("online",()=>watching&&refresh());addEventListener("offline",()=>{error={code:"network"};changes6.emit()})}var FIRST2=600;var MOST2=8e3;var RETRIES=20;var TIMEOUT4=8e3;var EXPIRY=18e4;var SPREAD2=2e3;var EARLY_RETRIES=5;var PROOFS=3;
var retryable=["network","rate_limited","overloaded","unavailable","order_in_progress","internal"];var purchases=new Map;
var changes7=topic();var onChange5=changes7.on;var purchase=voucherID=>purchases.get(voucherID)?.state??{is:"idle"};async function press(voucherID){
let p2=purchases.get(voucherID);if(p2?.running)return;if(!p2)purchases.set(voucherID,p2={state:{is:"idle"}});p2.running=
true;try{await run(voucherID,p2)}finally{p2.running=false;if(["buying","waiting"].includes(p2.state.is))p2.state={is:"id\
le"};if(p2.user!==session.user()?.id)purchases.delete(voucherID);changes7.emit(voucherID)}}async function run(voucherID,p2){
const setState=state2=>{p2.state=state2;changes7.emit(voucherID)};let pressed=Date.now();const expired2=()=>Date.now()-pressed>
EXPIRY;const user2=p2.user=await buyer(setState,expired2);if(!user2)return;if(expired2())pressed=Date.now();let early=0;
const room=sale(voucherID)?.entry?.mode==="room";let pass;let enter=(room?!place(voucherID).pass:sale(voucherID)?.entry?.
mode==="pass")&&!keys.has(user2,voucherID);let renewed=false;let challenge=null;let refusals=0;for(let failures2=0;session.
user()?.id===user2;){setState({is:"buying",tries:failures2,joining:room&&enter});try{if(enter){let body;if(challenge||demanded(
sale(voucherID))){setState({is:"buying",tries:failures2,joining:room,proving:true});body={solution:await solution(voucherID,
challenge)};challenge=null;setState({is:"buying",tries:failures2,joining:room})}const admission=await postMine(`/voucher\
s/${voucherID}/entry`,{as:user2,body,timeout:TIMEOUT4});forget3(voucherID);if(room){if(session.user()?.id===user2)begin(
voucherID,user2,admission);return}({pass}=admission)}enter=false;if(room)pass=place(voucherID).pass??pass;const headers2=pass&&
{"X-Entry-Pass":pass};const answer=await postMine(`/vouchers/${voucherID}/orders`,{as:user2,key:keys.of(user2,voucherID),
headers:headers2,timeout:TIMEOUT4});keys.forget(user2,voucherID);if(session.user()?.id===user2)accepted(voucherID,answer,
setState);return}catch(problem2){if(problem2.code==="other_user")return;if(problem2.code==="unauthenticated"){setState({
is:"idle"});if(!await login({again:true}))return;pressed=Date.now();continue}if(problem2.code==="duplicate_order"){keys.
forget(user2,voucherID);if(session.user()?.id!==user2)return;done(voucherID);setState({is:"bought",order:problem2.orderId,
already:true});fetchOne(problem2.orderId).catch(()=>{});return}if(problem2.code==="entry_required"&&!renewed){renewed=true;
enter=!room;if(enter||await renew2(voucherID))continue}if(problem2.code==="challenge_required"&&problem2.challenge&&++refusals<
PROOFS){forget3(voucherID);({challenge}=problem2);continue}const repeat=retryable.includes(problem2.code)&&problem2.retryAfter<
EXPIRY;if(!repeat)keys.forget(user2,voucherID);if(problem2.code==="sale_not_started"&&early++<EARLY_RETRIES){await sleep(
150+Math.random()*150);continue}if(!repeat||++failures2>RETRIES){reject(voucherID,problem2,setState,repeat);return}await pauseBeforeRetry(
problem2,failures2,setState);renewed=false;if(expired2()){reject(voucherID,problem2,setState,true);return}}}}async function buyer(setState,expired2){
for(let failures2=0;!session.user();){if(session.pending())setState({is:"buying",tries:failures2});try{await session.token()}catch(problem2){
if(problem2.code==="unauthenticated"){setState({is:"idle"});if(!await login())return void 0;continue}if(retryable.includes(
problem2.code)&&++failures2<=RETRIES)await pauseBeforeRetry(problem2,failures2,setState);else failures2=Infinity;if(failures2===
Infinity||expired2()){setState({is:"refused",problem:problem2,since:performance.now()});return void 0}}}return session.user().
id}var keys={known:new Map,of(user2,voucherID){const name2=`seckill.intent.${user2}.${voucherID}`;let key=this.known.get(
name2);try{key??=sessionStorage.getItem(name2)??newKey();sessionStorage.setItem(name2,key)}catch{key??=newKey()}this.known.
set(name2,key);return key},has(user2,voucherID){const name2=`seckill.intent.${user2}.${voucherID}`;try{return this.known.
has(name2)||sessionStorage.getItem(name2)!==null}catch{return this.known.has(name2)}},forget(user2,voucherID){const name2=`\
seckill.intent.${user2}.${voucherID}`;this.known.delete(name2);try{sessionStorage.removeItem(name2)}catch{}}};function reject(voucherID,problem2,setState,open3=false){
if(problem2.code==="sold_out")soldOut(voucherID);setState({is:"refused",problem:problem2,open:open3,since:performance.now()})}
async function pauseBeforeRetry(problem2,failures2,setState){const pause2=problem2.retryAfter+backoff(failures2-1,FIRST2,
MOST2)+(problem2.status===503?Math.random()*SPREAD2:0);setState({is:"waiting",why:problem2,at:performance.now()+pause2});
const wake=new AbortController;const up=()=>wake.abort();if(problem2.code==="network")addEventListener("online",up,{once:true});
const unsubscribe=session.on(up);await sleep(pause2,wake.signal);unsubscribe();removeEventListener("online",up)}function accepted(voucherID,answer,setState){
bought(voucherID);if(answer.status!=="queued"){put(answer);done(voucherID);setState({is:"bought",order:answer.id});return}
const now2=new Date().toISOString();put({id:answer.order_id,voucher_id:voucherID,user_id:session.user()?.id,status:"queu\
ed",created_at:now2,expires_at:now2});setState({is:"queued",order:answer.order_id})}function start5(){onChange2(order2=>{
if(!order2||order2.status==="queued")return;const p2=purchases.get(order2.voucher_id);if(p2?.state.order!==order2.id)return;
if(order2.status==="failed")reject(order2.voucher_id,{code:order2.reason||"internal"},state2=>p2.state=state2);else if(!active(
order2))p2.state={is:"idle"};else{done(order2.voucher_id);p2.state={...p2.state,is:"bought"}}changes7.emit(order2.voucher_id)});
session.on(user2=>{for(const[id,p2]of purchases){if(p2.running||p2.user===user2?.id)continue;purchases.delete(id);changes7.
emit(id)}})}function mount(root2){root2.replaceChildren(h("header",{class:"lead"},h("h1",{tabindex:-1},t("missing.title")),h("p",{},
t("missing.why"))),h("div",{},h("a",{href:"/",class:"button primary"},t("store.all"))));return()=>{}}var KEPT=10;function announce(sentence){if(!sentence)return;const live=document.getElementById("live");live.append(h("p",
{},sentence));if(live.childElementCount>KEPT)live.firstElementChild.remove()}var SLOW2=1e4;function queueNote(order2){const ahead=order2?.ahead;if(ahead===void 0)return t("buy.queuedNote");const slow=ahead===
0&&now()-Date.parse(order2.created_at)>SLOW2;return`${t("buy.queuedNote")} ${ahead>0?t("buy.ahead",{count:number(ahead)}):
t(slow?"buy.slow":"buy.next")}`}function confirmPayment(order2,title2){return new Promise(resolve=>{const id=newID("pay");const amount=money(order2.amount,
order2.currency);const sandbox="sandbox"in document.documentElement.dataset;let agreed=false;const dialog=h("dialog",{class:"\
sheet","aria-labelledby":id,onclose:()=>{dialog.remove();resolve(agreed)}},h("h2",{id},t("pay.title")),h("p",{lang:languageOf(
title2)},title2),h("p",{class:"row"},h("span",{},t("pay.total")),h("strong",{class:"amount"},amount)),h("p",{class:"note",
"data-method":sandbox?"sandbox":"provider"},t(sandbox?"pay.sandbox":"pay.provider")),h("div",{class:"actions"},h("button",
{type:"button",class:"quiet",onclick:()=>dialog.close()},t("back")),h("button",{type:"button",class:"primary",onclick:()=>{
agreed=true;dialog.close()}},t("pay.now",{amount}))));document.body.append(dialog);dialog.showModal()})}var t3=[.2,3/8,5/9,2/3];var o=(o2,e)=>r2=>{const n2=4*o2+r2-4,s2="*-04-39?2$%%$%%'$%''%'''%')(%'))%(++'(++'(+.'+-.',/3',\
33)-/5)-43).36)058*18<+37<+4:<,4:E,5<A-7>C/8@F/:EH/<EK0=FM1?IP2@KS3BNV4DPY5FS\\6HV_6IXb7K[e8N^i9Pam;Rdp<Tgt".charCodeAt(
n2)-35,f2=n2>8?s2:1,c2=e/f2|0,i2=e%f2,l2=f2-i2,a2=n2>8?c2*t3[r2]+(o2>5)&-2:s2,_2=c2-a2;return{t:l2*_2+i2*_2+i2,o:[[l2,_2],
[i2,_2+1]],i:a2}};var r=t4=>new Uint8Array(t4);var n=t4=>{const o2=new Error(`lean-qr error ${t4}`);throw o2.code=t4,o2};var s=t4=>"012345\
6789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:".indexOf(t4);var f=t4=>t4.charCodeAt(0);var c=(...t4)=>(o2,e)=>t4.forEach(t5=>t5(
o2,e));var i=t4=>o2=>{o2.eci!==t4&&(o2.push(7,4),t4<128?o2.push(t4,8):t4<16384?o2.push(32768|t4,16):o2.push(12582912|t4,
24),o2.eci=t4)};var l=t4=>(o2,e)=>{o2.push(4,4),o2.push(t4.length,8+8*(e>9)),t4.forEach(t5=>o2.push(t5,8))};var a=(t4,o2,e,r2,n2=(t5,o3)=>e(
t5.length,o3),s2=r2?o3=>c(i(r2),t4(o3)):t4)=>(s2.test=o2,s2.l=e,s2.est=n2,s2.eci=r2&&[r2],s2);var _=a(t4=>(o2,e)=>{o2.push(
1,4),o2.push(t4.length,10+2*(e>26)+2*(e>9));let r2=0;for(;r2<t4.length-2;r2+=3)o2.push(+t4.slice(r2,r2+3),10);r2<t4.length-
1?o2.push(+t4.slice(r2),7):r2<t4.length&&o2.push(+t4[r2],4)},t4=>/[0-9]/.test(t4),(t4,o2)=>14+2*(o2>26)+2*(o2>9)+10*t4/3);
var u=a(t4=>(o2,e)=>{o2.push(2,4),o2.push(t4.length,9+2*(e>26)+2*(e>9));let r2=0;for(;r2<t4.length-1;r2+=2)o2.push(45*s(
t4[r2])+s(t4[r2+1]),11);r2<t4.length&&o2.push(s(t4[r2]),6)},t4=>s(t4)>=0,(t4,o2)=>13+2*(o2>26)+2*(o2>9)+5.5*t4);var d=a(
t4=>l([...t4].map(f)),t4=>f(t4)<128,(t4,o2)=>12+8*(o2>9)+8*t4);d._=true,d.u=true;var p=a(d,t4=>f(t4)<256,d.l,3);p._=true;
var m=new TextEncoder;var h2=a(t4=>l(m.encode(t4)),()=>1,0,26,(t4,o2)=>12+8*(o2>9)+8*m.encode(t4).length);h2._=true;var w=()=>{
const t4=new Map,o2=new TextDecoder("sjis"),e=r(2);for(let r2=0;r2<7973;++r2)e[0]=r2/192+129+64*(r2>5951),e[1]=r2%192+64,
t4.set(o2.decode(e),r2);return t4.delete("�"),w=()=>t4,t4};var y=a(t4=>(o2,e)=>{o2.push(8,4),o2.push(t4.length,8+2*(e>
26)+2*(e>9));for(const e2 of t4)o2.push(w().get(e2),13)},t4=>w().has(t4),(t4,o2)=>12+2*(o2>26)+2*(o2>9)+13*t4);y._=true;
var g=[_,u,d,p,y,h2];var b={auto:(t4,{modes:o2=g}={})=>(e,r2)=>{const s2=o2.map((o3,e2)=>{const n2=new Map,s3=(t5,o4)=>(n2.
has(t5)||n2.set(t5,o4(t5,r2)),n2.get(t5));return{m:o3,h:1<<e2,C:o3.est("",r2),S:o3.l?(t5,e3)=>s3(e3-t5,o3.l):(e3,r3)=>s3(
t4.slice(e3,r3),o3.est)}});let f2=[{v:0}],c2=0,i2=0,l2=-1;for(const o3 of[...t4,""]){let t5=0;if(o3)for(const e2 of s2)e2.
m.test(o3)&&(t5|=e2.h);if(!o3||t5!==l2){if(-1!==l2){const t6=new Set(f2.map(t7=>t7.D)),o4=[];for(const{m:e2,C:r3,S:n2,h:a3}of s2)
if(l2&a3){const s3=n2(c2,i2);for(const l3 of e2.eci??t6)if(!e2.u||!l3){let t7;for(const o5 of f2)if(o5.D===l3||e2.eci){const f3=o5.
m===e2&&o5.D===l3,a4=f3?o5.V:o5,_2=e2._&&f3?o5.v+s3-r3:a4.v+12*(a4.D!==l3)+(f3?n2(f3?o5.$:c2,i2):s3);(!t7||_2<t7.v)&&(t7=
{$:f3?o5.$:c2,V:a4,m:e2,D:l3,A:i2,v:_2})}t7&&o4.push(t7)}}f2=o4}l2=t5,c2=i2}i2+=o3.length}f2.length||n(5);const a2=[];for(let o3=f2.
reduce((t5,o4)=>o4.v<t5.v?o4:t5);o3.m;o3=o3.V)a2.push(o3.m(t4.slice(o3.$,o3.A)));a2.reverse().forEach(t5=>t5(e,r2))},multi:c,
eci:i,bytes:l,numeric:_,alphaNumeric:u,ascii:d,iso8859_1:p,shift_jis:y,utf8:h2};var C=()=>({F:r(2956),I:0,push(t4,o2){for(let e=o2,
r2=8-(7&this.I);e>0;e-=r2,r2=8)this.F[this.I>>3]|=t4<<r2>>e,this.I+=e<r2?e:r2}});var x=(t4,o2=t4*t4,e=r(o2))=>({size:t4,
K:e,get:(o3,r2)=>o3>=0&&o3<t4&&!!(1&e[r2*t4+o3]),toString({on:o3="##",off:e2="  ",lf:r2="\n",pad:n2=4,padX:s2=n2,padY:f2=n2}={}){
let c2="";for(let n3=-f2;n3<t4+f2;++n3){for(let r3=-s2;r3<t4+s2;++r3)c2+=this.get(r3,n3)?o3:e2;c2+=r2}return c2},toImageData(o3,{
on:e2=[0,0,0],off:r2=[0,0,0,0],pad:n2=4,padX:s2=n2,padY:f2=n2}={}){const c2=t4+2*s2,i2=t4+2*f2,l2=o3.createImageData(c2,
i2),a2=new Uint32Array(l2.data.buffer);l2.data.set([...e2,255]);const _2=a2[0];l2.data.set([...r2,255]);const u2=a2[0];for(let t5=0;t5<
i2;++t5)for(let o4=0;o4<c2;++o4)a2[t5*c2+o4]=this.get(o4-s2,t5-f2)?_2:u2;return l2},toCanvas(t5,o3){const e2=t5.getContext(
"2d"),r2=this.toImageData(e2,o3);t5.width=r2.width,t5.height=r2.height,e2.putImageData(r2,0,0)},toDataURL({type:t5="imag\
e/png",scale:o3=1,...e2}={}){const r2=document.createElement("canvas"),n2=r2.getContext("2d"),s2=this.toImageData(n2,e2);
return r2.width=s2.width*o3,r2.height=s2.height*o3,n2.putImageData(s2,0,0),n2.imageSmoothingEnabled=false,n2.globalCompositeOperation=
"copy",n2.drawImage(r2,0,0,s2.width,s2.height,0,0,r2.width,r2.height),r2.toDataURL(t5,1)}});var z=[(t4,o2)=>1&(t4^o2),(t4,o2)=>1&
o2,t4=>t4%3,(t4,o2)=>(t4+o2)%3,(t4,o2)=>1&(t4/3^o2>>1),(t4,o2)=>(t4&o2&1)+t4*o2%3,(t4,o2)=>(t4&o2)+t4*o2%3&1,(t4,o2)=>(t4^
o2)+t4*o2%3&1];var E=r(511);for(let t4=0,o2=1;t4<255;o2=2*o2^285*(o2>127))E[E[o2+255]=t4++]=o2;var M=t4=>E[t4%255];var S=t4=>E[t4+
255];var v=(t4,o2)=>{const e=r(t4.length+o2.length-1);for(let r2=0;r2<t4.length;++r2)for(let n2=0;n2<o2.length;++n2)e[r2+
n2]^=M(t4[r2]+o2[n2]);return e.map(S)};var D=(t4,o2)=>{const e=r(t4.length+o2.length-1);e.set(t4,0);for(let r2=0;r2<t4.length;++r2)
if(e[r2]){const t5=S(e[r2]);for(let n2=0;n2<o2.length;++n2)e[r2+n2]^=M(o2[n2]+t5)}return e.slice(t4.length)};var L=[[0],
[0,0]];for(let t4=1;t4<30;++t4)L.push(v(L[t4],[0,t4]));var V=(t4,o2)=>{const e=[[],[]];let n2=0,s2=0;for(const[r2,f3]of o2.
o)for(let c2=0;c2<r2;++c2,n2+=f3){const r3=t4.slice(n2,n2+f3);e[0].push(r3),e[1].push(D(r3,L[o2.i])),s2+=f3+o2.i}const f2=r(
s2);s2=0;for(const t5 of e)for(let o3=0,e2=-1;e2<s2;++o3){e2=s2;for(const e3 of t5)o3<e3.length&&(f2[s2++]=e3[o3])}return f2};
var $=(t4,o2,e)=>{let r2=t4<<=e;for(let t5=134217728;t5>>=1;)r2&t5&&(r2^=o2*(t5>>e));return r2|t4};var A=({size:t4,K:o2},e)=>{
const r2=(e2,r3,n3,s3)=>{for(;n3-- >0;e2+=t4)o2.fill(s3,e2,e2+r3)},n2=(o3,e2,n3)=>{for(let s3=0;s3++<3;n3-=2)r2(e2*t4+o3-
(n3>>1)*(t4+1),n3,n3,2|s3)},s2=2*((t4-13)/(1+(e/7|0))/2+.75|0);if(e>1)for(let o3=t4-7;o3>8;o3-=s2){for(let t5=o3;t5>8;t5-=
s2)n2(o3,t5,5);o3<t4-7&&n2(o3,6,5)}if(e>6)for(let r3=$(e,7973,12),n3=1;n3<7;++n3)for(let e2=12;e2-- >9;r3>>=1)o2[n3*t4-e2]=
2|1&r3;r2(7,2,9,2),r2(t4-8,8,9,2);for(let e2=0;e2<t4;++e2)o2[6*t4+e2]=3^1&e2;n2(3,3,7),n2(t4-4,3,7);for(let e2=0;e2<t4;++e2)
for(let r3=e2;r3<t4;++r3)o2[r3*t4+e2]=o2[e2*t4+r3];o2[(t4-8)*t4+8]=3};var F=({size:t4,K:o2})=>{const e=[];for(let r2=t4-
2,n2=t4,s2=-1;r2>=0;r2-=2){for(5===r2&&(r2=4);n2+=s2,-1!==n2&&n2!==t4;){const s3=n2*t4+r2;o2[s3+1]||e.push(s3+1),o2[s3]||
e.push(s3)}s2*=-1}return e};var H=({K:t4},o2,e)=>o2.forEach((o3,r2)=>t4[o3]=e[r2>>3]>>(7&~r2)&1);var I=({size:t4,K:o2},e,r2,n2)=>{
for(let r3=0;r3<t4;++r3)for(let n3=0;n3<t4;++n3){const s3=r3*t4+n3;o2[s3]^=!(e(n3,r3)||2&o2[s3])}let s2=21522^$((1^n2)<<
3|r2,1335,10);for(let e2=0;e2++<8;s2>>=1)o2[(e2-(e2<7))*t4+8]=1&s2,o2[9*t4-e2]=1&s2;for(let e2=8;--e2,s2;s2>>=1)o2[8*t4+
e2-(e2<7)]=1&s2,o2[(t4-e2)*t4+8]=1&s2};var K=({size:t4,K:o2},e=0,r2=0)=>{for(let n2=0;n2<t4;++n2){for(let s2=0;s2<2;++s2)
for(let f2,c2=0,i2=0,l2=2;c2<t4;++c2){const a2=1&o2[s2?n2*t4+c2:c2*t4+n2];r2+=a2,i2=(i2>>1|2098176)&(3047517^a2-1),2049&
i2&&(e+=40),a2^l2&&(f2=0),l2=a2,e+=5===++f2?3:f2>5}if(n2)for(let r3=t4+n2,s2=5*o2[n2-1]^o2[n2];r3<t4*t4;r3+=t4){const t5=5*
o2[r3-1]^o2[r3];e+=3*!(1&(s2|t5)|4&(s2^t5)),s2=t5}}return e+10*(10*Math.abs(r2/(t4*t4)-1)|0)};var N=[];var P=(t4=n(1),{minCorrectionLevel:e=0,
maxCorrectionLevel:r2=3,minVersion:s2=1,maxVersion:f2=40,mask:c2,trailer:i2=60433,...l2}={})=>{r2<e&&n(3),f2<s2&&n(2),"s\
tring"==typeof t4&&(t4=b.auto(t4,l2));for(let n2=s2,l3=0;n2<=f2;++n2){let s3=N[n2];s3||(N[n2]=s3=x(4*n2+17),A(s3,n2),s3.
p=F(s3));const f3=o(n2,s3.p.length>>3);if(8*f3(e).t<l3)continue;const a2=C();t4(a2,n2),l3=a2.I;for(let t5=r2;t5>=e;--t5){
const o2=f3(t5);if(8*o2.t<l3)continue;for(a2.I=l3+11&-8;a2.I<8*o2.t;)a2.push(i2,16);const e2=x(s3.size,s3.K);return H(e2,
s3.p,V(a2.F,o2)),(z[c2]?[z[c2]]:z).map((o3,r3)=>{const n3=x(e2.size,e2.K);return I(n3,o3,c2??r3,t5),n3.s=z[c2]?0:K(n3),n3}).
reduce((t6,o3)=>o3.s<t6.s?o3:t6)}}n(4)};P.with=(...t4)=>(o2,e)=>P(o2,{modes:[...g,...t4],...e});var QUIET2=4;function qr(content,label){const code=P(content);const size=code.size+2*QUIET2;let path2="";for(let y2=0;y2<
code.size;y2++){for(let x2=0;x2<code.size;x2++)if(code.get(x2,y2))path2+=`M${x2+QUIET2} ${y2+QUIET2}h1v1h-1z`}return svg(
"svg",{class:"qr",viewBox:`0 0 ${size} ${size}`,role:"img","aria-label":label,"shape-rendering":"crispEdges"},svg("path",
{class:"qr-light",d:`M0 0h${size}v${size}H0z`}),svg("path",{class:"qr-dark",d:path2}))}var shops_exports={};__export(shops_exports,{addressOf:()=>addressOf,load:()=>load2,mapLink:()=>mapLink,onChange:()=>onChange6,
shop:()=>shop2});var RETRY3=3e4;var shops=new Map;var next=new Map;var changes8=topic();var listed=null;var onChange6=changes8.on;function load2(){
listed??=get("/shops?limit=100").then(({items})=>{for(const s2 of items)shops.set(s2.id,s2)},()=>{}).then(changes8.emit)}
function shop2(id){if(!shops.get(id)&&performance.now()>=(next.get(id)??0)){next.set(id,performance.now()+RETRY3);(listed??
Promise.resolve()).then(()=>shops.get(id)??get(`/shops/${id}`)).then(s2=>{shops.set(id,s2);changes8.emit()},()=>{})}return shops.
get(id)??null}var maps={"zh-CN":"https://uri.amap.com/search?keyword=",en:"https://www.openstreetmap.org/search?query="};
function addressOf(s2){const parts=[s2?.area,s2?.address].filter(Boolean);return languageOf(parts.join(""))==="en"?parts.
reverse().join(", "):parts.join(" ")}function mapLink(address){const lang=languageOf(address);return h("a",{class:"map",
href:maps[lang]+encodeURIComponent(address),target:"_blank",rel:"noreferrer",lang},icon("pin"),address)}function mount2(root2,only2){const cards=new Map;const heading=h("h1",{tabindex:-1},t(only2?"orders.one":"orders.title"));
const all2=h("a",{href:"/orders",class:"link"},icon("back"),t("orders.all"));const list2=h("ul",{class:"orders","data-on\
e":Boolean(only2)});const empty=h("p",{class:"empty"});const error2=h("p",{class:"banner",role:"status"});const enter=h(
"button",{type:"button",class:"primary",onclick:()=>login()},t("login.title"));const shop3=h("a",{href:"/",class:"button\
 primary"},t("orders.shop"));const more3=h("button",{type:"button",class:"quiet",onclick:()=>load(true)},t("more"));let missing4=false;
let unreadable=null;let failures2=0;let mounted=true;let retry=0;root2.replaceChildren(h("header",{class:"lead"},all2,heading),
error2,list2,empty,h("div",{class:"center"},enter,shop3,more3));function find2(){clearTimeout(retry);missing4=false;if(!only2||
!session.user()||order(only2))return;fetchOne(only2).then(()=>unreadable=null,problem2=>{missing4=["not_found","invalid_\
request"].includes(problem2.code);unreadable=missing4?null:problem2;if(unreadable&&mounted)retry=setTimeout(find2,problem2.
retryAfter+backoff(failures2++,1e3,15e3))}).then(()=>mounted&&render2())}function render2(){const user2=session.user();const{
state:state2,problem:unread}=loadState();const orders2=!user2?[]:only2?[order(only2)].filter(Boolean):list();const problem2=orders2.
length===0&&unreadable||unread;const loading=user2&&state2!=="loaded"&&!problem2;text(empty,!user2?t("orders.guest"):missing4?
t("orders.missing"):loading||only2?t("loading"):t("orders.none"));show(empty,orders2.length===0&&!problem2);text(error2,
problem2?`${explain(problem2)} ${t("store.retrying")}`:"");show(error2,user2&&problem2);show(enter,!user2);show(shop3,user2&&
!loading&&orders2.length===0&&!problem2&&(!only2||missing4));show(all2,only2);show(more3,user2&&!only2&&hasMore());for(const[
id,c2]of cards){if(orders2.some(o2=>o2.id===id))continue;c2.element.remove();cards.delete(id)}let at=list2.firstChild;for(const o2 of orders2){
let c2=cards.get(o2.id);if(!c2){c2=card(o2.id,Boolean(only2));cards.set(o2.id,c2);list2.insertBefore(c2.element,at)}else if(c2.
element===at)at=at.nextSibling;c2.update()}}const ends=[onChange2(render2),onChange4(render2),onChange6(render2),session.
on(()=>{find2();render2()})];const timer3=setInterval(()=>{for(const c2 of cards.values())c2.update()},1e3);if(session.user())
load();pin(only2??"");find2();render2();return()=>{mounted=false;clearInterval(timer3);clearTimeout(retry);pin("");for(const end of ends)
end()}}var boughtOf=(o2,v2)=>o2.title===void 0?v2??{}:o2;function card(id,open3){const alone=open3;const titleID=newID("\
order");const name2=h("a",alone?{}:{href:`/orders/${id}`});const title2=h("h2",{id:titleID,tabindex:"-1"},name2);const of=h(
"p",{class:"sub"});const rules=h("p",{class:"note terms"});const at=h("span",{});const chip=h("span",{class:"chip"});const amount=h(
"strong",{class:"amount"});const facts=h("p",{class:"facts"},at,alone?` · ${t("orders.number",{id})}`:"");const deadline=h(
"span",{});const due=h("p",{class:"due"},icon("clock"),deadline);const error2=h("p",{class:"error",role:"alert"});const ref=h(
"p",{class:"reference"});const button=(name3,kind,press2)=>{const b2=h("button",{type:"button",class:kind,"data-do":name3,
"aria-describedby":titleID,onclick:()=>b2.getAttribute("aria-disabled")||press2()});return b2};const pay=button("pay","p\
rimary",payNow);const again=h("a",{class:"button primary","data-do":"again"},t("orders.again"));const cancel=button("can\
cel","quiet",()=>confirmAndAct("cancel"));const refund=button("refund","quiet",()=>confirmAndAct("refund"));const codeID=newID(
"code");const toggle=h("button",{type:"button","data-do":"code","aria-expanded":String(open3),"aria-controls":codeID,onclick:()=>{
open3=!open3;update()}});const picture=h("div",{class:"picture"});const code=h("code",{});const validity=h("p",{class:"n\
ote"});const pass=h("div",{class:"pass",id:codeID},picture,h("div",{},h("p",{class:"label"},t("orders.code")),code,h("p",
{class:"note"},t("orders.show")),validity));const element=h("li",{class:"order","data-order":id,"aria-labelledby":titleID},
h("div",{class:"head"},title2,chip),of,h("div",{class:"row"},facts,amount),due,pass,rules,error2,ref,h("div",{class:"act\
ions"},refund,cancel,toggle,pay,again));let was=null;async function confirmAndAct(action2){if(await confirm(t(`confirm.${action2}`),
t(`do.${action2}`)))act(id,action2)}async function payNow(){if(await confirmPayment(order(id),name2.textContent))act(id,
"pay")}function update(){const o2=order(id);if(!o2)return;const held=element.contains(document.activeElement)?document.activeElement:
null;const v2=one(o2.voucher_id);const{action:action2,problem:problem2}=doing(id);const working=Boolean(action2)&&!problem2;
const unpaid=o2.status==="pending_payment";const{title:bought3}=boughtOf(o2,v2);text(name2,bought3||t("orders.voucher",{
id:o2.voucher_id}));if(alone)attr(name2,"href",v2?`/sales/${o2.voucher_id}`:null);attr(name2,"lang",bought3&&languageOf(
bought3));showBought(o2,v2);const late=unpaid&&timeLeft(o2)<=0;attr(element,"data-status",o2.status);const status=working&&
action2==="pay"&&unpaid?t("status.paying"):t(`status.${o2.status}`);text(chip,status);text(at,moment(o2.created_at));text(
amount,o2.amount===void 0?"":money(o2.amount,o2.currency));showDue(o2,unpaid,working);for(const[b2,name3,shown2]of[[pay,
"pay",unpaid],[cancel,"cancel",unpaid],[refund,"refund",o2.status==="paid"]]){show(b2,shown2);text(b2,working&&action2===
name3?t("working"):t(`do.${name3}`));attr(b2,"aria-disabled",working||late&&name3!=="refund"?"true":null)}attr(again,"hr\
ef",`/sales/${o2.voucher_id}`);show(again,!active(o2)&&v2&&["on_sale","upcoming","sold_out"].includes(stateOf2(v2)));showCode(
o2);text(error2,problem2?explain(problem2):"");show(error2,problem2);text(ref,problem2?reference(problem2):"");show(ref,
problem2?.requestId);if(held?.closest("[hidden]"))title2.focus();if(was!==null&&was!==status)announce(`${title2.textContent}\
: ${status}`);was=status}function showDue(o2,unpaid,working){const rest=timeLeft(o2);const words={queued:()=>queueNote(o2),
pending_payment:()=>working?t("orders.paying"):rest>0?t("orders.due",{left:left(rest,true)}):t("orders.late"),cancelled:()=>o2.
cancelled_at&&(expired(o2)?t("orders.expired",{at:moment(o2.expires_at)}):t("orders.cancelled",{at:moment(o2.cancelled_at)})),
failed:()=>explain({code:o2.reason||"internal"}),refunding:()=>t("orders.refunding"),redeemed:()=>o2.redeemed_at&&t("ord\
ers.redeemed",{at:moment(o2.redeemed_at)}),refunded:()=>o2.refunded_at&&t("orders.refunded",{at:moment(o2.refunded_at)})}[o2.
status];text(deadline,words&&words()||"");show(due,deadline.textContent)}function showBought(o2,v2){const{rules:terms,shop_id:shopID,
shop_name:shopName}=boughtOf(o2,v2);const s2=shopID&&(alone||!shopName)?shop2(shopID):null;const name3=shopName||s2?.name;
const address=alone?addressOf(s2):"";const where=[name3,address,alone&&s2?.open_hours].filter(Boolean);if(of.textContent!==
where.join(" · ")){of.replaceChildren(...where.flatMap(part=>[" · ",part===address?mapLink(part):part]).slice(1))}attr(
of,"lang",languageOf(where.join("")));show(of,where.length>0);text(rules,alone&&terms||"");attr(rules,"lang",languageOf(
rules.textContent));show(rules,rules.textContent)}function showCode(o2){const has2=o2.status==="paid"&&o2.redeem_code;show(
toggle,has2);show(pass,has2&&open3);text(toggle,t(open3?"orders.hideCode":"orders.showCode"));attr(toggle,"aria-expanded",
String(open3));attr(toggle,"class",open3?"quiet":"primary");text(validity,[["validFrom",o2.valid_from],["validUntil",o2.
valid_until]].filter(([,time])=>time).map(([name3,time])=>`${t(`sale.${name3}`)} ${stamp(time)}`).join(" · "));show(validity,
validity.textContent);if(!has2){picture.replaceChildren()}else if(code.textContent!==o2.redeem_code||!picture.firstChild){
text(code,o2.redeem_code);picture.replaceChildren(qr(o2.redeem_code,t("orders.qr",{code:o2.redeem_code})))}}return{element,
update}}var STORED2="seckill.open";var LIFETIME=23*36e5;var stored=load3();function load3(){try{return JSON.parse(sessionStorage.
getItem(STORED2))??{}}catch{return{}}}function singleFlight(button,errorBox,work){let working=false;return async event=>{event?.preventDefault();if(working||button.
getAttribute("aria-disabled")==="true")return;working=true;errorBox.clear();attr(button,"aria-disabled","true");attr(button,
"data-busy",true);try{await work()}catch(problem2){if(!problem2.code)throw problem2;errorBox.show(problem2)}finally{working=
false;attr(button,"aria-disabled",null);attr(button,"data-busy",null)}}}var SPOKEN=3e4;var FAR=24*36e5;var spoken=new Map;var furthest=new Map;function announced(id,position){const last=spoken.
get(id);if(position>1&&last?.position>=position&&performance.now()-last.at<SPOKEN)return last.position;spoken.set(id,{position,
at:performance.now()});return position}function turn(v2,state2,alone){if(v2.entry?.mode!=="room"||state2==="ended")return void 0;
const p2=place(v2.id);const shown2=places2[p2.is](v2,state2,p2,alone);if(shown2&&p2.offline)shown2.note=t("room.offline");
return shown2}function message(v2,state2){if(v2.entry?.mode!=="room"||state2==="ended")return"";const p2=place(v2.id);return([
"lobby","waiting","admitted"].includes(p2.is)?p2.message:v2.entry.message)??""}var waits=(head,note,say)=>({label:t("buy\
.waiting"),disabled:true,kind:"waiting",head,note,say,leave:true});var reserved=p2=>!p2.paused&&p2.eta===void 0;function wait(p2){
if(p2.paused)return t("room.paused");if(reserved(p2))return t("room.reserved");const minutes=Math.round(p2.eta/60);return minutes<
1?t("room.soon"):t("room.minutes",{minutes:number(minutes)})}var places2={none(v2,state2,p2,alone){const until=Date.parse(
v2.entry.opens_at)-now();if(state2==="upcoming"&&until>0){const note=until>FAR?t("room.opensAt",{at:moment(v2.entry.opens_at)}):
t("room.opensIn",{left:left(until)});return{disabled:true,note,say:t("state.upcoming")}}if(state2==="sold_out")return void 0;
return{label:t(alone?"room.join":"room.joinShort"),note:t(state2==="upcoming"?"room.early":"room.late"),idle:true,say:t(
"room.open")}},asking:()=>({label:t("room.asking"),disabled:true,busy:true,note:"",say:""}),lobby:(v2,state2,p2)=>waits(
t("room.lobby"),t(p2.paused?"room.paused":"room.drawn"),t(p2.paused?"room.paused":"room.lobby")),waiting(v2,state2,p2){const ahead=p2.
ahead>0?t("room.ahead",{count:number(p2.ahead)}):t("room.next");const from=Math.max(furthest.get(v2.id)??0,p2.position);
furthest.set(v2.id,from);return{...waits(t("room.position"),`${ahead} ${wait(p2)}`,p2.paused?t("room.paused"):t("room.po\
sitionIs",{position:number(announced(v2.id,p2.position))})),figure:number(p2.position),part:[from-p2.position+1,from+1],
reserved:reserved(p2)}},admitted:(v2,state2,p2)=>({label:t("buy.now"),kind:"turn",head:t("room.yours"),note:t("room.turn",
{left:left(p2.until-now(),true)}),until:{at:p2.until,label:t("time.buyWithin")},say:t("room.yours"),leave:true,mine:true}),
sold_out:()=>waits(t("button.sold_out"),t("room.soldOut"),t("room.soldOut")),lost:(v2,state2)=>state2==="sold_out"?void 0:
{label:t("room.again"),kind:"lost",head:t("room.lost"),note:t("room.lostNote"),say:`${t("room.lost")} ${t("room.lostNote")}`}};var REFUSAL_SHOWN=8e3;var DAY2=864e5;function action(v2,state2,alone){const label=state2==="on_sale"?t("buy.now"):closed(
v2,state2,alone);if(v2.preview)return{label,disabled:true,note:t("sale.preview"),say:""};const p2=purchase(v2.id);const held=holding(
v2.id);const order2=held[0]??(p2.order&&order(p2.order));switch(p2.is){case"buying":if(p2.joining)return{label:t("room.a\
sking"),disabled:true,busy:true,note:p2.proving?t("proof.working"):"",say:""};return{label:t("buy.buying"),disabled:true,
busy:true,note:t(p2.proving?"proof.working":"buy.holdOn"),say:t("buy.buying")};case"waiting":{const why=t(`waiting.${p2.
why.code}`);const seconds=Math.max(1,Math.ceil((p2.at-performance.now())/1e3));return{label:t("buy.waiting"),disabled:true,
busy:true,kind:"waiting",head:why,note:t("buy.retryIn",{seconds}),say:why}}case"queued":return{label:t("buy.waiting"),disabled:true,
busy:true,kind:"waiting",head:t("buy.queued"),note:queueNote(order2),say:t("buy.queued")}}const most=v2.limit_per_user??
1;const limit=most>1?t(held.length>0?"buy.held":"buy.limit",{held:number(held.length),n:number(most)}):"";const due=held.
filter(o2=>o2.status==="pending_payment");const unpaid=due.at(-1)??(p2.is==="bought"&&!order2?{}:void 0);const rejoins=v2.
entry.mode==="room"&&held.length<most&&!unpaid;if((held.length>0||p2.is==="bought")&&!rejoins)return bought2(v2,state2,alone,
{p:p2,held,order:order2,due,unpaid,most,limit});const place2=turn(v2,state2,alone);const inRoom=place2&&{label,...place2};
const byState=!p2.open&&["sold_out","sale_not_started","sale_ended"].includes(p2.problem?.code);const lost=byState&&p2.problem.
code==="sold_out"&&state2==="sold_out";if(p2.is==="refused"&&(!byState||lost||performance.now()-p2.since<REFUSAL_SHOWN)){
const note=explain(p2.problem)+(p2.open?` ${t("buy.unknown")}`:"");const refusal={kind:"warn",head:"",note,reference:reference(
p2.problem),say:note};if(inRoom&&!p2.open)return inRoom.disabled||inRoom.label===t("room.again")?inRoom:{...inRoom,...refusal};
if(state2==="on_sale")return{label:t("buy.retry"),...refusal};if(lost)return{label,disabled:true,kind:"lost",head:t("buy\
.lost"),note:t("note.sold_out"),say:t("buy.lost")};if(byState)return{label,disabled:true,kind:"warn",note,say:note}}const guest=alone&&
state2==="upcoming"&&!session.user()&&!session.pending();if(inRoom?.disabled&&guest)return{...inRoom,label:t("ready.logi\
n"),disabled:false,ready:true};if(inRoom)return inRoom;const proof=stateOf(v2.id);const check=proof?t(`proof.${proof}`):
"";const say=`${t(`state.${state2}`)} ${check}`;if(state2==="on_sale")return{label,note:check,idle:true,limit,say};if(guest)
return{label:t("ready.login"),ready:true,note:t("ready.why",{at:hour(v2.begin_at,now())}),limit,say};const missed=alone&&
state2==="sold_out"&&{kind:"lost",head:t("state.sold_out")};return{label,disabled:true,...missed,note:`${t(`note.${state2}`)}\
 ${check}`.trim(),idle:true,limit,say}}function closed(v2,state2,alone){const now2=now();if(state2==="upcoming"&&!alone&&
Date.parse(v2.begin_at)-now2>DAY2)return t("state.upcoming");return t(`button.${state2}`,{at:hour(v2.begin_at,now2)})}function bought2(v2,state2,alone,{
p:p2,held,order:order2,due,unpaid,most,limit}){const several=due.length>1;const fresh=p2.is==="bought"&&!p2.already;const refused=p2.
is==="refused"&&performance.now()-p2.since<REFUSAL_SHOWN;const until=unpaid?.id?{at:Date.parse(unpaid.expires_at),label:t(
"time.payWithin")}:void 0;let note=t(fresh?"buy.paid":"buy.already");if(unpaid)note=until?t("buy.payWithin",{left:left(timeLeft(
unpaid),true)}):t("buy.payInTime");if(several)note=`${t("buy.unpaid",{n:number(due.length)})} ${note}`;if(refused)note=explain(
p2.problem);return{label:t(several?"orders.nav":!unpaid?"buy.see":alone?"buy.pay":"buy.payShort"),calm:!unpaid,href:several?
"/orders":`/orders/${unpaid?.id??order2?.id??p2.order}`,kind:refused?"warn":"won",head:unpaid&&!refused?t("buy.won"):"",
note,until,limit,another:held.length>0&&held.length<most&&state2==="on_sale"&&v2.entry.mode!=="room"?t("buy.another"):void 0,
say:unpaid&&!refused?`${t("buy.won")} ${t("buy.payInTime")}`:note}}var EARLY2=6e4;var ALARM="-PT5M";var LENGTH=15*6e4;var LONGEST=2**31-1;var LINE=75;var timers=new Map;function reminders(id){
const status=h("p",{class:"note",role:"status"});const button=(name2,sign,press2)=>h("button",{type:"button",class:"quie\
t","data-do":name2,onclick:press2},icon(sign),t(`remind.${name2}`));const notify=button("notify","bell",async()=>text(status,
await schedule2(sale(id))));const element=h("div",{class:"remind"},button("calendar","calendar",()=>toCalendar(sale(id))),
notify,status);return{element,update(v2,state2){show(element,state2==="upcoming"&&!v2.preview);show(notify,"Notification"in
globalThis&&Notification.permission!=="denied"&&untilAlarm(v2)<LONGEST)}}}var untilAlarm=v2=>Date.parse(v2.begin_at)-EARLY2-
now();async function schedule2(v2){try{if(await Notification.requestPermission()!=="granted")return t("remind.blocked");
notification(v2)}catch{return t("remind.blocked")}clearTimeout(timers.get(v2.id));if(untilAlarm(v2)>0)timers.set(v2.id,setTimeout(
notification,untilAlarm(v2),v2));return t("remind.set")}function notification(v2){const shown2=new Notification(v2.title,
{body:t("remind.starts",{at:hour(v2.begin_at,now())}),tag:`seckill-${v2.id}`});shown2.onclick=()=>globalThis.focus()}function toCalendar(v2){
save(new Blob([calendar(v2,shop2(v2.shop_id))],{type:"text/calendar"}),`${v2.id}.ics`)}var utc=time=>new Date(time).toISOString().
replace(/[-:]|\.\d+/g,"");var escaped=words=>words.replace(/[\\;,]/g,"\\$&").replace(/\r?\n/g,"\\n");function calendar(v2,at){
const begin2=Date.parse(v2.begin_at);const link=new URL(`/sales/${v2.id}`,location.href).href;return["BEGIN:VCALENDAR","\
VERSION:2.0","PRODID:-//seckill//EN","BEGIN:VEVENT",`UID:sale-${v2.id}@${location.hostname}`,`DTSTAMP:${utc(now())}`,`DT\
START:${utc(begin2)}`,`DTEND:${utc(Math.min(begin2+LENGTH,Date.parse(v2.end_at)))}`,`SUMMARY:${escaped(v2.title)}`,`DESC\
RIPTION:${escaped(link)}`,`URL:${link}`,...at?[`LOCATION:${escaped([at.name,at.address].filter(Boolean).join(", "))}`]:[],
"BEGIN:VALARM","ACTION:DISPLAY",`TRIGGER:${ALARM}`,`DESCRIPTION:${escaped(v2.title)}`,"END:VALARM","END:VEVENT","END:VCA\
LENDAR",""].map(folded).join("\r\n")}function folded(line){let all2="";let size=0;for(const c2 of line){const bytes=new TextEncoder().
encode(c2).length;if(size+bytes>LINE){all2+="\r\n ";size=1}all2+=c2;size+=bytes}return all2}var HOUR=36e5;var TINTS=4;var signs={won:"check",waiting:"clock",turn:"bell",lost:"cross",warn:"alert"};function keepTime(update){
let timer3=0;function tick(idle2){clearTimeout(timer3);const now2=now();update(now2,idle2);let next2=1e3-now2%1e3;for(const v2 of all()){
for(const time of[v2.begin_at,v2.end_at,v2.entry.opens_at].map(Date.parse)){if(time>now2)next2=Math.min(next2,time-now2)}}
timer3=setTimeout(tick,next2+1,true)}const ends=[sales_exports,shops_exports,buy_exports,human_exports,mine_exports,rooms_exports].
map(changed=>changed.onChange(()=>tick(false)));ends.push(session.on(()=>tick(false)));tick(false);return()=>{clearTimeout(
timer3);for(const end of ends)end()}}var onScreen=new WeakSet;var observer=new IntersectionObserver(entries=>{for(const e of entries)
onScreen[e.isIntersecting?"add":"delete"](e.target)},{rootMargin:"100%"});function card2(id,alone=false){const titleID=newID(
"sale");const noteID=newID("note");const chip=h("span",{class:"chip"});const name2=alone?h("span",{}):h("a",{href:`/sale\
s/${id}`});const title2=h("h2",{id:titleID,class:alone&&"sr"},name2);const image=h("img",{alt:"",class:"image",loading:"\
lazy",hidden:true,onerror:()=>showImage(false)});const cover=h("div",{class:"cover","data-empty":true},h("span",{"aria-h\
idden":"true"}),image,chip);const of=h("span",{});const sub=h("span",{});const price=h("strong",{});const worth=h("s",{});
const insteadOf=h("span",{class:"sr"},t("store.insteadOf"));const off=h("span",{class:"off"});const stockBar=h("progress",
{"aria-label":t("store.stock")});const stockText=h("span",{});const stock=h("div",{class:"stock"},stockBar,stockText);const timeLabel=h(
"span",{class:"label"});const time=h("span",{class:"time",role:"timer","aria-live":"off"});const times=h("div",{class:"c\
lock"},timeLabel," ",time);const label=h("span",{id:newID("buy")});const button=h("button",{type:"button",class:"primary\
 buy","aria-describedby":noteID,"aria-labelledby":`${label.id} ${titleID}`,onclick:onPress},label);const link=h("a",{"ar\
ia-describedby":noteID});const sign=h("span",{class:"sign"});const headline=h("strong",{});const figure=h("span",{class:"\
figure"});const part=h("progress",{"aria-hidden":"true"});const note=h("p",{id:noteID,class:"note"});const result=h("div",
{class:"result"},sign,h("div",{},headline,figure,part,note));const another=h("button",{type:"button",class:"link","data-\
do":"another","aria-describedby":titleID,onclick:()=>press(id)});const limit=h("p",{class:"limit"});const ref=h("p",{class:"\
reference"});const word=h("p",{class:"banner","data-message":true});const error2=h("p",{class:"error",role:"alert"});const leave2=h(
"button",{type:"button",class:"link","data-do":"leave","aria-describedby":titleID},t("room.leave"));leave2.addEventListener(
"click",singleFlight(leave2,{clear:()=>text(error2,""),show:problem2=>text(error2,explain(problem2))},async()=>{if(!await confirm(
t("room.sure"),t("room.leave")))return;await leave(id);button.focus()}));const remind=alone?reminders(id):null;const act2=h(
"div",{class:"act"},word,result,another,limit,ref,leave2,error2,remind?.element);const element=h(alone?"article":"li",{class:"\
sale","data-voucher":id,"aria-labelledby":titleID},cover,h("div",{class:"what"},title2,h("p",{class:"sub"},of," ",sub)),
h("div",{class:"meter"},stock,alone?null:times),h("div",{class:"bar"},h("div",{class:"price"},price," ",insteadOf,worth,
" ",off),alone?times:null,button,link),act2);observer.observe(element);let shown2={};let counted=null;let reserved2=false;
let timed=null;let was=null;let said=null;let turned=null;function onPress(){if(button.getAttribute("aria-disabled")==="\
true")return;if(button.dataset.do==="ready")login();else press(id)}function update(now2,idle2){const v2=sale(id);if(!v2)
return;const state2=stateOf2(v2,now2);if(idle2&&state2===element.dataset.state&&!onScreen.has(element))return;const at=shop2(
v2.shop_id)?.name??"";if(v2!==shown2.v||at!==shown2.at)showFacts(v2,at);const a2=action(v2,state2,alone);if(v2!==counted||
state2!==element.dataset.state||Boolean(a2.reserved)!==reserved2)showStock(v2,state2,a2);counted=v2;reserved2=Boolean(a2.
reserved);attr(element,"data-state",state2);text(chip,t(`state.${state2}`));showTime(v2,state2,now2,a2.until);showAction(
a2);showResult(a2);if(alone&&!a2.href&&!a2.busy&&!v2.preview)prepare(v2,state2,now2);remind?.update(v2,state2);if(was!==
null&&was!==a2.say)announce(a2.say&&`${v2.title}: ${a2.say}`);was=a2.say;const from=message(v2,state2);text(word,from);show(
word,from);if(said!==null&&said!==from)announce(from&&`${v2.title}: ${from}`);said=from;show(leave2,a2.leave);if(!a2.leave)
text(error2,"");const active2=document.activeElement;if(a2.mine&&turned===false&&(!active2||active2===document.body||element.
contains(active2)))button.focus();turned=Boolean(a2.mine)}function showFacts(v2,at){if(v2.image_url!==shown2.v?.image_url){
attr(image,"src",v2.image_url);showImage(Boolean(v2.image_url))}shown2={v:v2,at};for(const[el,words]of[[name2,v2.title],
[sub,v2.sub_title],[of,at]]){text(el,words);attr(el,"lang",languageOf(words));show(el,words)}const[initial]=at||v2.title;
text(cover.firstChild,initial);attr(cover,"data-tint",initial.codePointAt(0)%TINTS);text(price,money(v2.pay_value,v2.currency));
const saves=v2.actual_value>v2.pay_value;text(worth,money(v2.actual_value,v2.currency));show(worth,saves);show(insteadOf,
saves);const share=saves?Math.round(100-100*v2.pay_value/v2.actual_value):0;text(off,t("store.off",{off:language()==="zh"?
number((100-share)/10):share}));show(off,share>0&&share<100)}function showImage(visible){show(image,visible);attr(cover,
"data-empty",!visible)}function showStock(v2,state2,a2){const units=Math.max(v2.initial_stock+(v2.added_stock??0),v2.stock,
1);const claimed=units-v2.stock;const share=Math.min(Math.max(claimed/units,claimed>0?.01:0),v2.stock>0?.99:1);show(stock,
state2!=="ended");show(stockBar,state2!=="upcoming");attr(stockBar,"max",units);attr(stockBar,"value",claimed);const words={
claimed:percent(share),left:number(v2.stock),n:number(v2.stock)};const name3=a2.reserved?"reserved":alone?"claimedLeft":
"claimed";text(stockText,t(`store.${state2==="upcoming"?"units":name3}`,words))}function showTime(v2,state2,now2,other){
const until=other?.at??Date.parse(state2==="upcoming"?v2.begin_at:v2.end_at);const far=until-now2>48*HOUR?"At":"";const kind=other?.
label??state2;if(timed===kind&&!onScreen.has(element))return;timed=kind;const over=state2==="ended"&&!other;text(timeLabel,
other?.label??t(over?"time.ended":`time.${state2==="upcoming"?"begins":"ends"}${far}`));text(time,over?moment(until):far?
hour(until,now2):left(until-now2,Boolean(other)))}function showAction(a2){const focused=document.activeElement===button||
document.activeElement===link;text(label,a2.label);attr(button,"aria-disabled",a2.disabled?"true":null);attr(button,"dat\
a-busy",a2.busy);attr(button,"data-do",a2.ready&&"ready");text(another,a2.another??"");show(another,a2.another);text(limit,
a2.limit??"");show(limit,a2.limit);show(button,!a2.href);show(link,a2.href);if(a2.href){attr(link,"href",a2.href);attr(link,
"class",`button ${a2.calm?"quiet":"primary"} buy`);text(link,a2.label)}if(focused&&a2.href&&document.activeElement!==link)
link.focus();if(focused&&!a2.href&&document.activeElement!==button)button.focus();text(ref,a2.reference??"");show(ref,a2.
reference)}function showResult(a2){if(result.dataset.kind!==a2.kind||!sign.firstChild)sign.replaceChildren(...a2.kind?[icon(
signs[a2.kind])]:[]);attr(result,"data-kind",a2.kind);attr(act2,"data-result",Boolean(a2.kind));for(const[el,words]of[[headline,
a2.head],[figure,a2.figure],[note,a2.idle&&!alone?"":a2.note]]){text(el,words??"");show(el,words)}attr(part,"value",a2.part?.[0]);
attr(part,"max",a2.part?.[1]);show(part,a2.part);show(result,a2.kind||note.textContent)}return{element,update}}var shown="";var title=()=>sale(shown)?.title??t(missing3===shown?"missing.title":"store.title");function mount3(root2,id){
shown=id;const heading=h("h1",{tabindex:-1});const banner=h("p",{class:"banner toast",role:"status"});const waiting=h("p",
{class:"sr",role:"status"},t("loading"));const body=h("div",{class:"one"});const bones=h("div",{class:"one bones","aria-\
hidden":"true"},h("div",{class:"bone"}));const c2=card2(id,true);let gone2=false;const facts=h("dl",{class:"facts-list"});
const rules=h("p",{class:"terms"});const rulesTitle=h("h2",{},t("sale.terms"));const shared=h("p",{class:"note",role:"st\
atus"});const share=h("button",{type:"button",class:"quiet","data-do":"share",onclick:onShare},icon("share"),t("sale.sha\
re"));const stepsID=newID("steps");const steps=h("div",{class:"steps"},h("h2",{id:stepsID},t("sale.after")),h("ol",{"ari\
a-labelledby":stepsID},...["pay","code","shop"].map(step=>h("li",{},t(`sale.after.${step}`)))));body.append(c2.element,h(
"section",{class:"details"},facts,rulesTitle,rules,steps,h("div",{class:"share"},share,shared)));const all2=h("a",{href:"\
/",class:"link"},icon("back"),t("store.all"));root2.replaceChildren(h("header",{class:"lead"},all2,heading),banner,waiting,
body,bones);async function onShare(){const link=new URL(`/sales/${id}`,location.href).href;try{if(navigator.share)await navigator.
share({title:title(),url:link});else{await navigator.clipboard.writeText(link);text(shared,t("sale.copied"))}}catch{text(
shared,link)}}function giveUp(){if(gone2)return;gone2=true;stopReading();attr(root2,"data-bar",null);mount(root2);showTitle()}
function update(now2,idle2){if(missing3===id)return giveUp();const v2=sale(id);text(banner,error?t(error.code==="network"?
"store.offline":"store.unavailable"):"");show(banner,error);const loading=!v2&&!error;show(waiting,loading);show(bones,loading);
show(body,v2);text(heading,title());if(!v2)return;heading.lang=languageOf(v2.title);if(document.title.indexOf(v2.title)<
0)showTitle();c2.update(now2,idle2);text(rules,v2.rules);rules.lang=languageOf(v2.rules);show(rules,v2.rules);show(rulesTitle,
v2.rules);show(steps,stateOf2(v2,now2)!=="ended");showFacts(v2)}function showFacts(v2){const of=shop2(v2.shop_id);const all3=[
["shop",of?.name],["address",addressOf(of)],["hours",of?.open_hours],["begins",stamp(v2.begin_at)],["ends",stamp(v2.end_at)],
["zone",zone(new Date(v2.begin_at))],["validFrom",v2.valid_from&&stamp(v2.valid_from)],["validUntil",v2.valid_until&&stamp(
v2.valid_until)],["limit",t("sale.limitOf",{n:v2.limit_per_user})],["payWithin",v2.pay_timeout?duration(v2.pay_timeout):
""]].filter(([,value])=>value);const names=all3.map(([name2])=>name2).join(" ");if(facts.dataset.names!==names){facts.dataset.
names=names;facts.replaceChildren(...all3.map(([name2])=>h("div",{},h("dt",{},t(`sale.${name2}`)),h("dd",{}))))}all3.forEach(
([name2,value],i2)=>{const dd=facts.children[i2].lastChild;if(name2!=="address")text(dd,value);else if(dd.textContent!==
value)dd.replaceChildren(mapLink(value))})}attr(root2,"data-bar",true);const stopReading=watch2(id);const stopTime=keepTime(
update);return()=>{attr(root2,"data-bar",null);stopReading();stopTime()}}var folded2=text2=>text2.normalize("NFKC").replace(/\u1e9e/g,"ss").toUpperCase().toLowerCase().replace(/ς/g,"σ").replace(
/i\u0307/g,"i").replace(/\p{Default_Ignorable_Code_Point}|\p{Cf}/gu,"").normalize("NFKC");var STROKES={ø:"o",ł:"l",đ:"\
d",ħ:"h",ŧ:"t",æ:"ae",œ:"oe"};var withoutAccents=text2=>text2.normalize("NFD").replace(/(?=\p{Mn})[\u0300-\u036f\u0591-\u05c7\u064b-\u0652\u0670]/gu,
"").normalize("NFC").replace(/[øłđħŧæœ]/g,letter=>STROKES[letter]);function finder(search){const words=folded2(search).
split(/\s+/).filter(Boolean);return text2=>{const full2=folded2(text2);const plain=withoutAccents(full2);return words.every(
word=>full2.includes(word)||plain.includes(word))}}var DAY3=24*36e5;var NOW="now";function mount4(root2){const cards=new Map;const grid=h("ul",{class:"grid"});const bones=h(
"div",{class:"grid bones","aria-hidden":"true"},...Array.from({length:6},()=>h("div",{class:"bone"})));const empty=h("p",
{class:"empty",role:"status"});const banner=h("p",{class:"banner toast",role:"status"});const more3=h("button",{type:"bu\
tton",class:"quiet","data-do":"more",onclick:()=>more2()},t("more"));const past2=h("button",{type:"button",class:"quiet",
"data-do":"past",onclick:()=>readPast()},t("store.past"));const slots=h("div",{class:"slots",role:"group","aria-label":t(
"store.slots")});const searchID=newID("search");const search=h("input",{id:searchID,type:"search",name:"q",placeholder:t(
"store.searchFor"),oninput:onSearch});search.value=new URLSearchParams(location.search).get("q")??"";let chosen="";root2.
replaceChildren(h("header",{class:"lead store"},h("h1",{tabindex:-1},t("store.title")),h("p",{},t("store.lead")),h("div",
{class:"search",role:"search"},h("label",{for:searchID,class:"sr"},t("store.search")),search)),slots,banner,empty,grid,bones,
h("div",{class:"center"},more3,past2));function onSearch(){history.replaceState(history.state,"",search.value?`/?${new URLSearchParams(
{q:search.value})}`:"/");update(now())}function matches(v2,contains){const of=shop2(v2.shop_id);return contains([v2.title,
v2.sub_title,of?.name,of?.area,of?.address,moment(v2.begin_at)].join(" "))}function slotOf(v2,now2){const state2=stateOf2(
v2,now2);if(state2==="ended")return"";if(v2.begin_at===chosen)return chosen;if(state2!=="upcoming")return NOW;return Date.
parse(v2.begin_at)-now2<DAY3?v2.begin_at:""}function showSlots(all2,now2){const starts=[...new Set(all2.map(v2=>slotOf(v2,
now2)))].filter(slot=>slot&&slot!==NOW).sort();const found=all2.some(v2=>slotOf(v2,now2)===NOW)?[NOW,...starts]:starts;if(chosen&&
!found.includes(chosen))chosen="";show(slots,found.length>1||!loaded);const names=["",...found];if(slots.dataset.names!==
names.join()){slots.dataset.names=names.join();const held=slots.contains(document.activeElement)?document.activeElement.
dataset.slot:null;slots.replaceChildren(...names.map(slot=>h("button",{type:"button",class:"quiet","data-slot":slot,onclick:()=>{
chosen=slot;update(now())}})));if(held!==null)slots.children[Math.max(names.indexOf(held),0)].focus()}names.forEach((slot,i2)=>{
const words=slot===""?t("store.everything"):slot===NOW?t("store.now"):hour(slot,now2);text(slots.children[i2],words);attr(
slots.children[i2],"aria-pressed",String(slot===chosen))})}function update(now2,idle2=false){const all2=loaded?all():[];
text(banner,error?t(error.code==="network"?"store.offline":"store.unavailable"):"");show(banner,error);show(more3,hasMore2());
show(past2,loaded&&!hasPast());for(const v2 of all2)if(!cards.has(v2.id))add(v2,now2);for(const[id,c2]of cards){if(sale(
id))continue;c2.element.remove();cards.delete(id)}showSlots(all2,now2);const contains=search.value.trim()?finder(search.
value):null;let found=0;for(const[id,c2]of cards){const v2=sale(id);const visible=(!contains||matches(v2,contains))&&(chosen===
""||slotOf(v2,now2)===chosen);show(c2.element,visible);if(visible)found++;c2.update(now2,idle2)}const loading=!loaded;show(
bones,loading);attr(empty,"class",loading?"sr":"empty");text(empty,found>0||all2.length===0&&error?"":loading?t("loading"):
all2.length>0?t("store.noMatch"):t("store.empty"));show(empty,empty.textContent)}function add(v2,now2){const c2=card2(v2.
id);c2.rank=rank(v2,now2);const next2=[...cards.values()].filter(other=>before(c2.rank,other.rank)).reduce((first,other)=>!first||
before(other.rank,first.rank)?other:first,null);grid.insertBefore(c2.element,next2?.element??null);cards.set(v2.id,c2)}load2();
const ends=[watch2(),keepTime(update)];return()=>{for(const end of ends)end()}}function rank(v2,now2){const state2=stateOf2(
v2,now2);const at=Date.parse(state2==="upcoming"?v2.begin_at:v2.end_at);return[["on_sale","upcoming","sold_out","ended"].
indexOf(state2),state2==="ended"?-at:at,-Number(v2.id)]}function before(a2,b2){const i2=a2.findIndex((n2,at)=>n2!==b2[at]);
return i2>=0&&a2[i2]<b2[i2]}var en={brand:"Seckill",nav:"Main",skip:"Skip to content",cancel:"Cancel",back:"Back",more:"Show more",loading:"Loading…",
working:"One moment…",login:"Log in",logout:"Log out",console:"Console","more.nav":"Other pages","more.imprint":"Impri\
nt","more.privacy":"Privacy","more.shop":"Shop","more.docs":"API","more.problems":"Error codes","time.days":"{days} d {c\
lock}","time.seconds":"{s} s","time.minutes":"{n} min","time.minutesSeconds":"{n} min {s} s","state.upcoming":"Upcoming",
"state.on_sale":"On sale","state.sold_out":"Sold out","state.ended":"Ended","login.title":"Log in","login.why":"We text \
you a code. The first login creates your account.","login.phone":"Mobile number","login.format":"Such as 13800000000 or \
+86 138 0000 0000","login.code":"6-digit code","login.send":"Send code","login.resend":"Resend code","login.resendIn":"R\
esend in {left}","login.sent":"Code sent. It is valid for two minutes.","login.demoAccounts":"Demo: no text message is s\
ent. Pick an account:","role.buyer":"Buyer","role.viewer":"Viewer","role.redeemer":"Redeemer","role.operator":"Operator",
"role.admin":"Admin","login.ended":"Your session has ended. Log in again to continue.","login.sentBefore":"A code was se\
nt to this number moments ago. Enter that code, or wait and have another one sent.","login.quota":"Too many codes for th\
is number. You can request the next one at {at}.","login.demo":"Demo mode: the code {code} has been filled in for you.",
"login.enter":"Log in and continue","login.wrong":"The code is wrong, already used or expired.","login.totp":"Authentica\
tor code","login.totpNote":"The six digits that your authenticator app shows now.","login.wrongTOTP":"The digits are wro\
ng or were used already. Enter the next ones that the app shows.","login.badphone":"This is not a mobile number of a cou\
ntry that this shop serves. Landlines cannot receive codes.","login.as":"Logged in as","status.queued":"In the queue","s\
tatus.pending_payment":"Awaiting payment","status.paying":"Paying…","status.paid":"Paid","status.redeemed":"Used","sta\
tus.cancelled":"Cancelled","status.refunding":"Refunding…","status.refunded":"Refunded","status.failed":"Failed","erro\
r.network":"Cannot reach the server. Check your connection.","error.invalid_request":"Please check what you entered.","e\
rror.unauthenticated":"Please log in again.","error.token_expired":"Please log in again.","error.forbidden":"You are not\
 allowed to do this.","error.entry_required":"Your entry pass was not accepted. Please try again.","error.challenge_requ\
ired":"The security check did not succeed. Please try again. It needs a secure connection (https) and a current browser.",
"error.method_not_allowed":"This page is out of date. Reload it.","error.not_found":"Not found. It may have been removed\
.","error.invalid_state":"This is not possible in the current state.","error.idempotency_mismatch":"This page is out of \
date. Please reload it.","error.sale_not_started":"The sale has not started yet.","error.sale_ended":"The sale has ended\
.","error.sold_out":"Sold out.","error.duplicate_order":"You already have an order for this.","error.order_in_progress":"\
Your order is being processed.","error.totp_required":"Enter the six digits of your authenticator app.","error.unpaid_li\
mit":"Too many of your orders are unpaid. Pay or cancel the open ones. A sale in which you let an order expire accepts n\
o further order from you.","error.rate_limited":"Too many requests. Please wait a moment.","error.too_large":"A proxy in\
 front of the server does not accept a file of this size. Choose a smaller one, or raise the limit of the proxy (nginx: \
client_max_body_size 11m).","error.overloaded":"Demand is very high right now. Please try again.","error.unavailable":"T\
he server is temporarily unavailable. Please try again.","error.internal":"Something went wrong on our side.","error.pay\
ment_failed":"The payment was declined. You can try again.","error.other":"The request failed.","error.reference":"Refer\
ence: {id}"};var zh={brand:"秒杀",nav:"主导航",skip:"跳到正文",cancel:"取消",back:"返回",more:"加载更多",
loading:"加载中…",working:"请稍候…",login:"登录",logout:"退出",console:"控制台","more.nav":"其他页面",
"more.imprint":"商家信息","more.privacy":"隐私政策","more.shop":"商城","more.docs":"接口文档","more.proble\
ms":"错误码","time.days":"{days} 天 {clock}","time.seconds":"{s} 秒","time.minutes":"{n} 分钟","time.minutesSecon\
ds":"{n} 分 {s} 秒","state.upcoming":"即将开始","state.on_sale":"抢购中","state.sold_out":"已抢光","state.en\
ded":"已结束","login.title":"登录","login.why":"我们会向你的手机发送验证码，首次登录自动注册。",
"login.phone":"手机号","login.format":"例如 13800000000 或 +86 138 0000 0000","login.code":"六位验证码","logi\
n.send":"发送验证码","login.resend":"重新发送","login.resendIn":"{left} 后可重新发送","login.sent":"验证码已发\
送，两分钟内有效。","login.demoAccounts":"演示环境不发送短信，选择账号直接登录：","role.buye\
r":"买家","role.viewer":"只读","role.redeemer":"核销员","role.operator":"运营","role.admin":"管理员","login.\
ended":"登录已失效，请重新登录后继续。","login.sentBefore":"刚刚已向该号码发送验证码，请输入该验证码，或稍后重新发送。",
"login.quota":"该号码的验证码次数已用完，请于 {at} 后重试。","login.demo":"演示环境：验证码 {code} 已自动填入。",
"login.enter":"登录并继续","login.wrong":"验证码错误、已使用或已过期。","login.totp":"动态验证码",
"login.totpNote":"身份验证器应用当前显示的六位数字。","login.wrongTOTP":"动态验证码错误或已使用过，请输入应用显示的下一个。",
"login.badphone":"号码有误，或不是本店支持的国家和地区的手机号。固定电话无法接收验证码。",
"login.as":"当前登录","status.queued":"排队中","status.pending_payment":"待支付","status.paying":"支付中…",
"status.paid":"已支付","status.redeemed":"已使用","status.cancelled":"已取消","status.refunding":"退款中…",
"status.refunded":"已退款","status.failed":"下单失败","error.network":"无法连接服务器，请检查网络。",
"error.invalid_request":"提交的内容有误，请检查后重试。","error.unauthenticated":"请重新登录。","er\
ror.token_expired":"请重新登录。","error.forbidden":"没有权限执行此操作。","error.entry_required":"入场凭证已\
失效，请重试。","error.challenge_required":"安全检测未通过，请重试。检测需要安全连接（https）和较新版本的浏览器。",
"error.method_not_allowed":"页面已过期，请刷新后重试。","error.not_found":"内容不存在或已下架。",
"error.invalid_state":"当前状态下无法操作。","error.idempotency_mismatch":"页面已过期，请刷新后重试。",
"error.sale_not_started":"秒杀尚未开始。","error.sale_ended":"秒杀已经结束。","error.sold_out":"已抢光。",
"error.duplicate_order":"你已购买过该商品。","error.order_in_progress":"你的订单正在处理中。","error.\
totp_required":"请输入身份验证器应用上的六位数字。","error.unpaid_limit":"你有过多未支付的订单，请先支付或取消。如果曾在该秒杀中超时\
未付，则不能再次下单。","error.rate_limited":"请求太频繁，请稍后再试。","error.too_large":"服务器前的代\
理不接受这么大的文件。请换用较小的文件，或调高代理的上限（nginx：client_max_body_size 11m）。",
"error.overloaded":"当前抢购人数过多，请稍后再试。","error.unavailable":"服务暂时不可用，请稍后再试。",
"error.internal":"系统出了点问题，请稍后再试。","error.payment_failed":"支付失败，可以重新支付。",
"error.other":"操作失败，请重试。","error.reference":"问题编号：{id}"};function withOwn(own){return{en:{...en,
...own.en},zh:{...zh,...own.zh}}}var en2={foot:"A confirmed order is guaranteed. No sale is ever oversold.","account.title":"Your account","account.note":"\
You can download everything that is stored about you, or delete your account.","account.everywhere":"Log out everywhere",
"account.download":"Download my data","account.delete":"Delete my account","account.sure":"Delete your account for good?",
"account.consequences":"Your number and name are removed and you are logged out on all devices. Unpaid orders are cancel\
led. Paid vouchers stay valid, but their codes can no longer be shown here, and you can no longer request a refund: save\
 the codes first.","time.begins":"Starts in","time.ends":"Ends in","time.beginsAt":"Starts","time.endsAt":"Ends","time.e\
nded":"Ended","time.payWithin":"Pay within","time.buyWithin":"Buy within","store.nav":"Sales","store.title":"Flash sales",
"store.lead":"New deals daily. First come, first served.","store.empty":"No sales are scheduled right now.","store.offli\
ne":"No connection. This page may be out of date. Retrying…","store.unavailable":"The server is not responding. Retryi\
ng…","store.retrying":"Retrying…","store.insteadOf":"face value","store.off":"−{off}%","store.stock":"Claimed","st\
ore.claimed":"{claimed} claimed","store.claimedLeft":"{claimed} claimed · {left} left","store.reserved":"{n} reserved",
"store.units":"{n} available","store.slots":"Start times","store.everything":"All","store.now":"On now","store.search":"\
Search","store.searchFor":"Title, shop, time","store.noMatch":"No sale matches.","store.past":"Show ended sales","store.\
all":"All sales","missing.title":"Page not found","missing.why":"The address is wrong, or the sale has been removed.","s\
ale.preview":"This is a preview for staff. The button works once the sale is published.","sale.shop":"Shop","sale.addres\
s":"Address","sale.hours":"Opening hours","sale.begins":"Starts","sale.ends":"Ends","sale.validFrom":"Valid from","sale.\
validUntil":"Valid until","sale.zone":"Time zone","sale.limit":"Limit per customer","sale.limitOf":"{n}","sale.payWithin":"\
Time to pay","sale.terms":"Terms","sale.after":"What happens next","sale.after.pay":"Buying reserves a unit for you. Pay\
 before the time shown on your order to keep it.","sale.after.code":"After the payment, your order shows a redemption co\
de. Until it is used you can have the order refunded.","sale.after.shop":"Show the code in the shop. It works once.","sa\
le.share":"Share","sale.copied":"Link copied.","ready.login":"Log in early","ready.why":"Log in now, and one tap buys at\
 {at}.","remind.calendar":"Add to calendar","remind.notify":"Notify me","remind.set":"Your browser notifies you a minute\
 before the start, while this page is open.","remind.blocked":"Your browser allows no notifications here. Use the calend\
ar.","remind.starts":"Starts {at}","button.upcoming":"Starts {at}","button.sold_out":"Sold out","button.ended":"Ended","\
note.upcoming":"This button activates at the start time. No need to refresh.","note.sold_out":"This page updates if a un\
it comes back.","note.ended":"","buy.now":"Buy now","buy.buying":"Buying…","buy.holdOn":"Your request has been sent. N\
o need to press again.","buy.waiting":"Waiting…","buy.retryIn":"Retrying in {seconds} s…","buy.queued":"In the queue\
…","buy.queuedNote":"A unit is reserved for you. Waiting for confirmation.","buy.ahead":"Orders ahead of yours: about \
{count}.","buy.next":"You are next.","buy.slow":"This is taking longer than usual. You need not do anything.","buy.won":"\
You got it!","buy.lost":"Just missed it","buy.payWithin":"Pay within {left} to keep it.","buy.payInTime":"Pay in time to\
 keep it.","buy.unpaid":"{n} of your orders are unpaid.","buy.limit":"Limit per customer: {n}","buy.held":"You have {hel\
d} of {n} allowed.","buy.another":"Buy another","buy.paid":"Your order is paid.","buy.already":"You already have an orde\
r for this.","buy.pay":"Go to payment","buy.payShort":"Pay","buy.see":"View order","buy.retry":"Try again","buy.unknown":"\
Your order may have been placed. Try again to find out; it is never placed twice.","proof.working":"A security check is \
running. You do not need to do anything.","proof.ready":"Security check complete.","proof.failed":"The security check co\
uld not finish. It will be repeated automatically.","waiting.network":"Connection lost.","waiting.rate_limited":"Too man\
y requests.","waiting.overloaded":"Demand is very high right now.","waiting.unavailable":"The server is temporarily unav\
ailable.","waiting.internal":"Something went wrong on our side.","waiting.order_in_progress":"Your order is being proces\
sed.","room.opensIn":"The waiting room opens in {left}.","room.opensAt":"The waiting room opens on {at}.","room.open":"T\
he waiting room is open.","room.join":"Join the waiting room","room.joinShort":"Join","room.early":"At the start, the or\
der of everyone in the waiting room is drawn at random. Coming earlier is no advantage.","room.late":"Customers are admi\
tted in turn.","room.asking":"One moment…","room.lobby":"You are in the waiting room","room.drawn":"Your position is d\
rawn at the start. Keep this page open.","room.position":"Your position","room.positionIs":"Your position: {position}","\
room.ahead":"Ahead of you: {count}.","room.next":"You're next.","room.soon":"Estimated wait: under a minute.","room.minu\
tes":"Estimated wait: about {minutes} min.","room.reserved":"All units are reserved by customers before you. If one is n\
ot bought, it is yours.","room.paused":"The shop has paused admissions. Your place is kept.","room.turn":"Buy within {le\
ft}.","room.yours":"It's your turn!","room.soldOut":"A unit may come back. It goes to those who wait, and your place is \
kept while this page is open.","room.lost":"Your place is gone.","room.lostNote":"Your turn has passed, or you left. You\
 can join again at the end of the line.","room.again":"Join again","room.offline":"Connection lost. Your place is kept. \
Retrying…","room.leave":"Leave the waiting room","room.sure":"Leave the waiting room? You lose your place.","room.badg\
e":"No. {position}","room.badgeTurn":"Your turn!","room.badgeLobby":"Waiting","orders.nav":"My orders","orders.title":"M\
y orders","orders.one":"Order details","orders.all":"All orders","orders.guest":"Log in to see your orders.","orders.non\
e":"You have no orders yet.","orders.missing":"Order not found.","orders.shop":"Browse sales","orders.voucher":"Voucher \
{id}","orders.number":"No. {id}","orders.due":"Pay within {left}, or the order is cancelled.","orders.late":"The payment\
 deadline has passed. The order is being closed.","orders.expired":"Payment time ran out ({at}). You were not charged.",
"orders.cancelled":"Cancelled on {at}. You were not charged.","orders.again":"Buy again","orders.paying":"Confirming the\
 payment…","orders.refunding":"Your refund is being processed.","orders.redeemed":"Used on {at}.","orders.refunded":"R\
efunded on {at}.","orders.code":"Redemption code","orders.show":"Show it at the shop. It can be used once.","orders.show\
Code":"Show code","orders.hideCode":"Hide code","orders.qr":"QR code for {code}","pay.title":"Confirm payment","pay.tota\
l":"Total","pay.sandbox":"Test payment (sandbox): no money moves, and no card or account is needed.","pay.provider":"The\
 amount is charged by the shop's payment provider.","pay.now":"Pay {amount}","do.pay":"Pay now","do.cancel":"Cancel orde\
r","do.refund":"Refund","confirm.cancel":"Cancel this order? It goes back on sale immediately.","confirm.refund":"Refund\
 this order? The code will stop working."};var zh2={foot:"下单成功即锁定名额，绝不超卖。","account.title":"\
我的账号","account.note":"你可以下载我们保存的全部个人数据，也可以注销账号。","account.ever\
ywhere":"退出所有设备","account.download":"下载我的数据","account.delete":"注销账号","account.sure":"确定要\
永久注销账号吗？","account.consequences":"注销后将删除手机号和昵称，所有设备都会退出登录，未支付的订单会被取消。已支付的券仍可使用，但无法再查看券码，也不能再申请退款，请先保存券码。",
"time.begins":"距开始","time.ends":"距结束","time.beginsAt":"开始于","time.endsAt":"结束于","time.ended":"结束\
于","time.payWithin":"支付剩余","time.buyWithin":"下单剩余","store.nav":"抢购","store.title":"限时秒杀","\
store.lead":"每日上新，准点开抢。","store.empty":"暂时没有秒杀活动。","store.offline":"网络已断开，页面内容可能已过\
时，正在重试…","store.unavailable":"服务暂时无响应，正在重试…","store.retrying":"正在重试…",
"store.insteadOf":"面值","store.off":"{off} 折","store.stock":"已抢比例","store.claimed":"已抢 {claimed}","stor\
e.claimedLeft":"已抢 {claimed} · 剩 {left} 份","store.reserved":"{n} 份已保留","store.units":"限量 {n} 份","\
store.slots":"开抢场次","store.everything":"全部","store.now":"抢购中","store.search":"搜索","store.searchFor":"\
商品、店铺、时间","store.noMatch":"没有符合条件的活动。","store.past":"查看已结束的活动","stor\
e.all":"全部秒杀","missing.title":"页面不存在","missing.why":"该地址有误，或者活动已下架。","sale\
.preview":"此页仅供工作人员预览，活动发布后方可购买。","sale.shop":"店铺","sale.address":"地址",
"sale.hours":"营业时间","sale.begins":"开始时间","sale.ends":"结束时间","sale.validFrom":"生效时间","sal\
e.validUntil":"有效期至","sale.zone":"时区","sale.limit":"每人限购","sale.limitOf":"{n} 份","sale.payWithin":"\
支付时限","sale.terms":"使用规则","sale.after":"购买流程","sale.after.pay":"抢购成功后为你锁定一份，请在订单显示的时限内支付，逾期将自动取消\
。","sale.after.code":"支付后，订单会显示核销码。未使用前可以申请退款。","sale.after.shop":"到店出\
示核销码，仅可使用一次。","sale.share":"分享","sale.copied":"链接已复制。","ready.login":"提前登录",
"ready.why":"登录后，{at} 准点一键抢。","remind.calendar":"加入日历","remind.notify":"开抢提醒","remin\
d.set":"开抢前一分钟将弹出提醒，请不要关闭本页面。","remind.blocked":"浏览器未允许通知，可改用日历提醒。",
"remind.starts":"{at} 开抢","button.upcoming":"{at} 开抢","button.sold_out":"已抢光","button.ended":"已结束","\
note.upcoming":"到点后按钮自动亮起，无需刷新。","note.sold_out":"如有退回，页面会自动恢复抢购。",
"note.ended":"","buy.now":"立即抢购","buy.buying":"抢购中…","buy.holdOn":"请求已提交，无需重复点击。",
"buy.waiting":"等待中…","buy.retryIn":"{seconds} 秒后自动重试。","buy.queued":"排队中…","buy.queuedNote":"\
已为你锁定一份，正在等待确认。","buy.ahead":"前面约有 {count} 个订单。","buy.next":"马上轮到你。",
"buy.slow":"处理时间比平时长，请耐心等待，无需任何操作。","buy.won":"抢到了！","buy.lost":"手慢了\
，没抢到","buy.payWithin":"请在 {left} 内完成支付。","buy.payInTime":"请尽快完成支付。","buy.unpaid":"\
你有 {n} 个订单待支付。","buy.limit":"每人限购 {n} 份","buy.held":"已购 {held} 份，每人限购 {n} 份。",
"buy.another":"再抢一份","buy.paid":"订单已支付。","buy.already":"你已抢购过该商品。","buy.pay":"去支付",
"buy.payShort":"去支付","buy.see":"查看订单","buy.retry":"再试一次","buy.unknown":"暂时无法确认是否下单成功；再试一次即可确认，不会重复\
下单。","proof.working":"正在自动进行安全检测，无需任何操作。","proof.ready":"安全检测已完成。",
"proof.failed":"安全检测未完成，稍后将自动重试。","waiting.network":"网络已断开。","waiting.rate_l\
imited":"请求太频繁。","waiting.overloaded":"当前抢购人数过多。","waiting.unavailable":"服务暂时不可用。",
"waiting.internal":"系统出了点问题。","waiting.order_in_progress":"你的订单正在处理中。","room.opensIn":"\
等候室将在 {left} 后开放。","room.opensAt":"等候室于 {at} 开放。","room.open":"等候室已开放。","r\
oom.join":"进入等候室","room.joinShort":"去排队","room.early":"开始时随机排定等候室内所有人的次序，早到并无优势。",
"room.late":"按次序依次放行。","room.asking":"请稍候…","room.lobby":"已进入等候室","room.drawn":"开始时随\
机排定你的位次，请不要关闭页面。","room.position":"当前排队位次","room.positionIs":"你排在第 {position\
} 位","room.ahead":"前面还有 {count} 人。","room.next":"下一个就是你。","room.soon":"预计不到一分钟。",
"room.minutes":"预计还需约 {minutes} 分钟。","room.reserved":"剩余名额都已为前面的用户保留。如有人未下单，就轮到你。",
"room.paused":"商家已暂停放行，排队位次会保留。","room.turn":"请在 {left} 内下单。","room.yours":"\
轮到你了！","room.soldOut":"如有名额退回，将优先给排队的用户；页面打开期间为你保留排队位次。",
"room.lost":"排队位次已失效。","room.lostNote":"已错过轮次，或已离开。可以重新排到队尾。","r\
oom.again":"重新排队","room.offline":"网络已断开，排队位次仍为你保留，正在重试…","room.leave":"\
离开等候室","room.sure":"确定离开等候室吗？离开后排队位次不再保留。","room.badge":"第 {position\
} 位","room.badgeTurn":"轮到你了！","room.badgeLobby":"等候中","orders.nav":"我的订单","orders.title":"我的订单",
"orders.one":"订单详情","orders.all":"全部订单","orders.guest":"登录后查看你的订单。","orders.none":"还\
没有订单。","orders.missing":"未找到该订单。","orders.shop":"去抢购","orders.voucher":"优惠券 {id}","o\
rders.number":"订单号 {id}","orders.due":"请在 {left} 内完成支付，逾期订单将自动取消。","orders.lat\
e":"已超过支付时限，订单正在关闭。","orders.expired":"未在 {at} 前支付，订单已取消，未产生扣款。",
"orders.cancelled":"已于 {at} 取消，未产生扣款。","orders.again":"重新抢购","orders.paying":"正在确认支付…",
"orders.refunding":"退款处理中。","orders.redeemed":"已于 {at} 使用。","orders.refunded":"已于 {at} 退款。",
"orders.code":"核销码","orders.show":"到店出示，仅可使用一次。","orders.showCode":"出示核销码","orde\
rs.hideCode":"收起核销码","orders.qr":"核销码 {code} 的二维码","pay.title":"确认支付","pay.total":"应付金额",
"pay.sandbox":"测试支付（沙箱）：不会产生真实扣款，无需银行卡或账户。","pay.provider":"款项由商家的\
支付服务商收取。","pay.now":"支付 {amount}","do.pay":"立即支付","do.cancel":"取消订单","do.refund":"退款",
"confirm.cancel":"确定取消订单吗？取消后名额会立即重新开售。","confirm.refund":"确定退款吗？退款后核销码将失效。"};
var texts_default=withOwn({en:en2,zh:zh2});var links2=[["/","store.nav"],["/orders","orders.nav","orders"]];start4();start5();start({texts:texts_default,pages:[{path:/^\/$/,
title:"store.title",mount:mount4,nav:"/"},{path:/^\/sales\/([^/]+)$/,title,mount:mount3,nav:"/"},{path:/^\/orders$/,title:"\
orders.title",mount:mount2,nav:"/orders"},{path:/^\/orders\/([^/]+)$/,title:"orders.one",mount:mount2,nav:"/orders"}],missing:{
title:"missing.title",mount},links:user2=>user2?.permissions?[...links2,["/console","console","console"]]:links2,foot:()=>t(
"foot"),badge:badge2,account:account2});onChange3(showTitle);start3();start2();session.start();
